"""A corpus as a text file, one input per line: description, and bytes in hexadecimal."""

from pathlib import Path

SEEDS = Path(__file__).parents[3] / "tests" / "fuzz" / "corpus"
"""The committed corpora, `<target>.hex`; absent if only the packages are installed."""


def read(path: Path) -> dict[str, bytes]:
    """Return the inputs of a file by description; empty without the file."""
    lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
    pairs = [line.rsplit(" ", 1) for line in lines if not line.startswith("#")]
    return {what: bytes.fromhex(digits) for what, digits in pairs}


def write(path: Path, inputs: dict[str, bytes]) -> None:
    """Write inputs."""
    path.write_text("".join(f"{what} {data.hex()}\n" for what, data in inputs.items()), encoding="ascii")


def unpack(inputs: dict[str, bytes], folder: Path) -> None:
    """Write each input to a file of its own, as libFuzzer requires."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in enumerate(inputs.values()):
        (folder / f"seed-{number:03}").write_bytes(data)
