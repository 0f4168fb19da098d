"""The command line: `feednet`, whose commands have modules of their own.

Exit status: 0 done; 1 a user-fixable error, in one line; 2 wrong usage; 130 interrupted (143 by SIGTERM).
"""

import io
import os
import sys

import click

from analysis.errors import AnalysisError, system_reason
from base.plugins import PluginError
from captures.formats.pcapng import CaptureError
from testbed.cli import interrupts
from testbed.cli.extras import lacking
from testbed.cli.group import LazyGroup
from testbed.cli.usage import HELP
from testbed.errors import UserError

MENDABLE = (UserError, AnalysisError, CaptureError, PluginError, OSError)
"""User-fixable errors."""

_PLACES = {
    "analyze": "testbed.cli.captures.analyze:analyze",
    "bundle": "testbed.cli.runs.artifact:bundle",
    "compare": "testbed.cli.runs.report:compare",
    "completion": "testbed.cli.completion:completion",
    "decrypt": "testbed.cli.captures.decrypt:decrypt",
    "describe": "testbed.cli.runs.describe:describe",
    "dissect": "testbed.cli.captures.dissect:dissect",
    "doctor": "testbed.cli.doctor:doctor",
    "exec": "testbed.cli.runs.enter:exec_",
    "export": "testbed.cli.runs.report:export",
    "figures": "testbed.cli.runs.figures:figures",
    "forward": "testbed.cli.nodes.forward:forward",
    "isp": "testbed.cli.nodes.tiny:isp",
    "lab": "testbed.cli.runs.lab:lab",
    "list": "testbed.cli.runs.listing:list_",
    "model": "testbed.cli.model:model",
    "new": "testbed.cli.runs.new:new",
    "open": "testbed.cli.runs.artifact:open_",
    "play": "testbed.cli.runs.play:play",
    "report": "testbed.cli.runs.report:report",
    "rerun": "testbed.cli.runs.artifact:rerun",
    "run": "testbed.cli.runs.run:run",
    "selftest": "testbed.cli.selftest:selftest",
    "serve": "testbed.cli.nodes.serve:serve",
    "shell": "testbed.cli.runs.enter:shell",
    "simulate": "testbed.cli.simulate:simulate",
    "ssb": "testbed.cli.nodes.ssb:ssb",
    "status": "testbed.cli.nodes.status:status",
    "study": "testbed.cli.runs.study:study",
    "tiny": "testbed.cli.nodes.tiny:tiny",
    "topology": "testbed.cli.runs.topology:topology",
    "watch": "testbed.cli.captures.watch:watch",
}


@click.group(cls=LazyGroup, places=_PLACES, context_settings=HELP)
@click.version_option(package_name="feednet")
def feednet() -> None:
    """Run NDN and Secure Scuttlebutt layered in different ways over one network, and compare them."""


def complaint(error: BaseException | None) -> str:
    """Return a command's final line for a user-fixable error, or wrong usage."""
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        see = f" (feednet {_words_of(context)}--help)" if context is not None else ""
        return _one_line(error.format_message()) + see
    assert isinstance(error, MENDABLE), error
    return _one_line(system_reason(error) if isinstance(error, OSError) else str(error))


def _words_of(context: click.Context) -> str:
    """Return a context's command words, each followed by a space."""
    words = context.command_path.split()[1:]
    return "".join(f"{word} " for word in words)


def _one_line(text: str) -> str:
    """Return a text in one line, without terminal control characters."""
    words = " ".join(text.split())
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in words)


def main() -> None:
    """Run the command; user-fixable errors are one line and exit status 1."""
    for stream in (sys.stdout, sys.stderr):  # a name may be invalid text, and a terminal may lack letters
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # Child processes must not import modules from the user's directory.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        with interrupts.stopping():
            feednet.main(prog_name="feednet", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(error.exit_code)
    except click.ClickException as error:
        click.echo(f"feednet: {complaint(error)}", err=True)
        sys.exit(error.exit_code)
    except ModuleNotFoundError as error:
        said = lacking(error)
        if said is None:
            raise
        click.echo(f"feednet: this needs {said}", err=True)
        sys.exit(1)
    except MENDABLE as error:
        click.echo(f"feednet: {complaint(error)}", err=True)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        click.echo("feednet: interrupted", err=True)
        interrupts.leave()


if __name__ == "__main__":
    main()
