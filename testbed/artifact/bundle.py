"""Bundles: a run as one file for a paper's artifact, with everything measured and needed to repeat it.

A bundle is a ZIP archive with one directory, NAME: the run's, README.txt, versions.txt, and SHA256SUMS of all
the others, as `sha256sum -c` reads it. Its content is untrusted: names must stay inside the directory, every
file must match SHA256SUMS, and nothing appears before all is unpacked.
"""

import hashlib
import shutil
import stat
import zipfile
import zlib
from importlib.metadata import distributions
from pathlib import Path, PurePosixPath
from typing import IO

from analysis.errors import AnalysisError, system_reason
from analysis.files import whole_directory
from analysis.run.manifest import Run
from base.files import whole_file
from testbed.api.results import Results
from testbed.errors import UserError, as_user_error, exists_already, shown
from testbed.experiment.code import SUMS

README = "README.txt"
VERSIONS = "versions.txt"
SUFFIX = ".feednet.zip"

_WRITTEN = (1980, 1, 1, 0, 0, 0)  # the earliest date in a ZIP: bundles of one run are identical
_CHUNK = 1 << 20
_MOST_SUMS = 16 << 20
_DAMAGES = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError)

_TEXT = """\
{title}

A run of feednet {version}: scenario {scenario}, seed {seed}, {net}, layerings {layerings}.

  feednet open {file}     unpacks it and checks every file
  {name}/report.html      the comparison; opens without a network
  feednet rerun {name}    repeats the run and compares the two
  {command}

scenario.json has every setting, manifest.json the versions, the processor and the digests of what was
measured, inputs/ the files that the scenario names. LAYERING/capture.pcapng has every frame, for Wireshark,
too; tables/*.parquet what was computed from it, for pandas or any other reader of Parquet. versions.txt has
the Python packages that were there when this file was made; SHA256SUMS, checked by `sha256sum -c SHA256SUMS`,
all files.
"""


def write(directory: Path, file: Path) -> None:
    """Write the bundle of a run, analysing it if necessary. Raises UserError, OSError."""
    run = Results(directory)
    report = run.report
    with as_user_error(AnalysisError):
        Run(directory).verify()
    if file.exists():
        raise exists_already(file)
    manifest = run.manifest
    name = directory.resolve().name
    texts = {
        README: _TEXT.format(
            title=manifest.title,
            version=manifest.feednet,
            scenario=manifest.scenario,
            seed=manifest.seed,
            net=manifest.net,
            layerings=", ".join(manifest.layerings),
            file=file.name,
            name=name,
            command=manifest.command or "(made from Python: by no command)",
        ),
        VERSIONS: "".join(sorted(f"{each.metadata['Name']}=={each.version}\n" for each in distributions())),
    }
    paths = sorted(
        path
        for path in directory.rglob("*")
        if path.is_file() and not path.is_symlink() and path.name not in (SUMS, *texts, ".lock")
    )
    assert report in paths
    sums = []
    with whole_file(file) as new, zipfile.ZipFile(new, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in paths:
            place = path.relative_to(directory).as_posix()
            with (
                path.open("rb") as source,
                archive.open(_entry(f"{name}/{place}"), "w", force_zip64=True) as to,
            ):
                sums.append(f"{_copy(source, to)}  {place}\n")
        for place, text in texts.items():
            data = text.encode()
            archive.writestr(_entry(f"{name}/{place}"), data)
            sums.append(f"{hashlib.sha256(data).hexdigest()}  {place}\n")
        archive.writestr(_entry(f"{name}/{SUMS}"), "".join(sums))


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _WRITTEN)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    return entry


def _copy(source: IO[bytes], to: IO[bytes]) -> str:
    """Copy a file; return its SHA-256."""
    digest = hashlib.sha256()
    while chunk := source.read(_CHUNK):
        digest.update(chunk)
        to.write(chunk)
    return digest.hexdigest()


def unpack(file: Path, directory: Path | None = None) -> Results:
    """Unpack a bundle into a new directory, by default of its inner name; return the run.

    Raises UserError, with one line, for a file that is no bundle, is damaged, or has paths outside; then no
    directory is left. Raises OSError.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            name, places = _places(file, archive)
            target = directory or Path(name)
            needed = sum(entry.file_size for entry in places.values())
            free = shutil.disk_usage(target.absolute().parent).free
            if needed > free:
                raise UserError(f"{file}: it takes {needed:,} bytes, and {free:,} are free at {target}")
            with whole_directory(target) as new:
                _unpack(file, archive, places, new)
                Results(new)
    except _DAMAGES as error:
        raise UserError(f"{file}: no bundle, or damaged: {str(error) or type(error).__name__}") from error
    except FileExistsError as error:
        raise UserError(f"{system_reason(error)}; choose another --out or remove it") from error
    return Results(target)


def _places(file: Path, archive: zipfile.ZipFile) -> tuple[str, dict[str, zipfile.ZipInfo]]:
    """Return the directory in a bundle, and its files by their inner paths. Raises UserError."""
    tops: set[str] = set()
    places: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        path = PurePosixPath(entry.filename)
        kind = stat.S_IFMT(entry.external_attr >> 16)
        plain = not {"..", "."} & {*path.parts} and "\\" not in entry.filename and "\0" not in entry.filename
        plain = plain and entry.filename.isprintable() and not entry.filename.startswith(".")
        plain = plain and entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
        if path.is_absolute() or not plain or kind not in (0, stat.S_IFREG) or len(path.parts) < 2:
            raise UserError(f"{file}: {shown(entry.filename)}: no file of a run; nothing has been unpacked")
        place = PurePosixPath(*path.parts[1:]).as_posix()
        if place in places or path.as_posix() != entry.filename:
            raise UserError(f"{file}: {shown(entry.filename)}: is there twice, or no file")
        tops.add(path.parts[0])
        places[place] = entry
    if len(tops) != 1 or SUMS not in places or places[SUMS].file_size > _MOST_SUMS:
        raise UserError(f"{file}: no bundle: it has no {SUMS} in one directory")
    return tops.pop(), places


def _unpack(file: Path, archive: zipfile.ZipFile, places: dict[str, zipfile.ZipInfo], new: Path) -> None:
    text = archive.read(places.pop(SUMS)).decode()
    wanted = {place: digest for digest, _, place in (line.partition("  ") for line in text.splitlines())}
    for place in {**places, **wanted}:
        if place not in places or place not in wanted:
            why = "is not there" if place not in places else f"{SUMS} has nothing about it"
            raise UserError(f"{file}: damaged: {shown(place)}: {why}")
    for place, entry in places.items():
        (new / place).parent.mkdir(parents=True, exist_ok=True)
        with archive.open(entry) as source, (new / place).open("xb") as to:
            if _copy(source, to) != wanted[place]:
                raise UserError(f"{file}: damaged: {shown(place)}: its SHA-256 is not that of {SUMS}")
    (new / SUMS).write_text(text, encoding="utf-8")
