"""The optional compiled build: `FEEDNET_COMPILE=1 pip install .` makes the forwarder, and what a frame meets
in the emulator and in `feednet simulate`, C extensions, by mypyc.

Without that variable the package is pure Python, and an editable install is so always: a compiled module
shadows its source. All else about the package stands in pyproject.toml. A compiled build is made in a
temporary directory and leaves nothing in the source tree.
"""

import os
import sys
from glob import glob
from multiprocessing.pool import ThreadPool
from tempfile import TemporaryDirectory
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext


def modules(*patterns: str) -> set[str]:
    """Return the modules that match; packages stay plain."""
    found = {path for pattern in patterns for path in glob(pattern, recursive=True)}
    return {path for path in found if not path.endswith("__init__.py")}


FORWARDER = modules("forwarder/**/*.py") - modules(
    # Bound by system calls and the event loop, or not on the way of a packet: nothing to gain.
    *("forwarder/daemon/*.py", "forwarder/faces/*.py", "forwarder/management/*.py", "forwarder/toml_file.py"),
    # To be inherited from, or to be read, by whoever writes another one in plain Python.
    "forwarder/strategies/*.py",
)
STRATEGIES = {
    f"forwarder/strategies/{name}.py" for name in ("measurements", "strategy_choice", "suppression")
}
"""On the way of every packet."""
EMULATOR = modules("topologies/emulator/**/*.py", "topologies/pipe.py")
CAPTURES = {"captures/formats/pcapng.py", "captures/layers/frames.py"}
SIMULATION = modules("testbed/verify/push/world/*.py") | {
    "testbed/verify/classic/applications.py",
    "testbed/verify/soak/applications.py",
}
"""The world of `feednet simulate`, and all classes that inherit from its own."""
SIGNED = {"ssb/bipf.py", "ssb/canonical.py"}
"""The formats in which Scuttlebutt's messages are signed."""

COMPILED = sorted(
    {f"base/{name}.py" for name in ("round_trip", "timers", "units")}
    | FORWARDER
    | STRATEGIES
    | EMULATOR
    | SIMULATION
    | CAPTURES
    | SIGNED
)
"""What is compiled, all together: modules of one group call each other as C functions do."""

FLAGS = [
    "--config-file=",  # the house's own rules are checked elsewhere, with all libraries at hand
    "--no-site-packages",  # nor are their types needed, or checked
    "--ignore-missing-imports",
]


class CompiledBuild(build):
    """Translates modules to C before it builds as ever."""

    def initialize_options(self) -> None:
        """Choose a directory that goes with the process."""
        super().initialize_options()
        self._directory = TemporaryDirectory(prefix="feednet-build-")
        self.build_base = self._directory.name

    def run(self) -> None:
        """Translate, and build."""
        from mypyc.build import mypycify  # not at the top: pip asks what is required before it is there

        extensions = mypycify(
            [*FLAGS, *COMPILED],
            group_name="feednet",
            multi_file=True,  # the C compiler takes more than twice as long for one file
            opt_level="1",
            target_dir=self.build_base,
        )
        for extension in extensions:  # another version of a compiler warns of other things
            extension.extra_compile_args = [*extension.extra_compile_args, "-Wno-error", "-g0"]
        self.distribution.ext_modules = extensions
        super().run()


class ParallelBuild(build_ext):
    """Compiles C files in parallel, those of one extension as well as those of several, on all cores."""

    def build_extensions(self) -> None:
        self.parallel = os.cpu_count()
        compile_one_by_one = self.compiler.compile

        def compile_in_parallel(sources: list[str], **options: Any) -> list[str]:
            with ThreadPool() as pool:
                return pool.map(lambda source: compile_one_by_one([source], **options)[0], sources, 1)

        self.compiler.compile = compile_in_parallel
        super().build_extensions()


if os.environ.get("FEEDNET_COMPILE") == "1" and "editable_wheel" not in sys.argv:
    setup(
        setup_requires=["mypy[mypyc]>=2"],
        cmdclass={"build": CompiledBuild, "build_ext": ParallelBuild},
        ext_modules=[Extension("feednet__mypyc", COMPILED)],  # stands for those that mypyc will name
    )
else:
    setup()
