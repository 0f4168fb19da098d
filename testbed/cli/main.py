"""The command line: `feednet`, whose commands have modules of their own.

Exit status: 0 done; 1 the user can mend it, said in one line; 2 wrong usage; 130 interrupted
(143 by SIGTERM).
"""

import os
import sys

import click
from rich.console import Console

from analysis.errors import of_system
from testbed.cli import interrupts
from testbed.cli.group import LazyGroup
from testbed.errors import UserError

_errors = Console(stderr=True, highlight=False, soft_wrap=True)

_PLACES = {
    "analyze": "testbed.cli.analyze:analyze",
    "bundle": "testbed.cli.artifact:bundle",
    "compare": "testbed.cli.runs:compare",
    "completion": "testbed.cli.completion:completion",
    "decrypt": "testbed.cli.decrypt:decrypt",
    "describe": "testbed.cli.library:describe",
    "dissect": "testbed.cli.dissect:dissect",
    "doctor": "testbed.cli.doctor:doctor",
    "exec": "testbed.cli.enter:exec_",
    "export": "testbed.cli.runs:export",
    "figures": "testbed.cli.figures:figures",
    "forward": "testbed.cli.forward:forward",
    "isp": "testbed.cli.tiny:isp",
    "list": "testbed.cli.library:list_",
    "model": "testbed.cli.model:model",
    "new": "testbed.cli.new:new",
    "open": "testbed.cli.artifact:open_",
    "report": "testbed.cli.runs:report",
    "rerun": "testbed.cli.artifact:rerun",
    "run": "testbed.cli.runs:run",
    "selftest": "testbed.cli.selftest:selftest",
    "serve": "testbed.cli.serve:serve",
    "shell": "testbed.cli.enter:shell",
    "simulate": "testbed.cli.simulate:simulate",
    "ssb": "testbed.cli.ssb:ssb",
    "status": "testbed.cli.status:status",
    "tiny": "testbed.cli.tiny:tiny",
    "topology": "testbed.cli.topology:topology",
    "watch": "testbed.cli.watch:watch",
}


@click.group(cls=LazyGroup, places=_PLACES, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="feednet")
def feednet() -> None:
    """Run NDN and Secure Scuttlebutt layered in different ways over one network, and compare them."""


def main() -> None:
    """Run the command; errors that the user can mend are one line and exit status 1."""
    # Nothing that we start takes modules from the user's directory.
    os.environ["PYTHONSAFEPATH"] = "1"
    try:
        with interrupts.stopping():
            feednet.main(prog_name="feednet", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except UserError as error:
        _errors.print(f"feednet: {error}", markup=False)
        sys.exit(1)
    except OSError as error:
        _errors.print(f"feednet: {of_system(error)}", markup=False)
        sys.exit(1)
    except (KeyboardInterrupt, click.Abort):
        _errors.print("feednet: interrupted")
        sys.exit(interrupts.status())


if __name__ == "__main__":
    main()
