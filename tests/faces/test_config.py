"""The daemon's configuration and command: what is said of mistakes, and what comes without any file."""

import os
import re
import socket
import subprocess
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from daemon_process import COMMAND, CONFIG, running, wait_until
from patience import PATIENCE_S

from forwarder.daemon.config import SAMPLE, Config, ConfigError, load
from forwarder.faces import unix
from testbed.cli.nodes.forward import forward


def written(directory: Path, text: str) -> Path:
    path = directory / "c.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_there_are_defaults() -> None:
    config = load(None)
    assert config == Config()
    assert config.udp.port == config.tcp.port == 6363
    assert config.multicast.interfaces == config.ethernet.interfaces == ()


def test_the_sample_changes_nothing(tmp_path: Path) -> None:
    assert load(written(tmp_path, SAMPLE.read_text())) == Config()


def uncommented(sample: str) -> str:
    """The sample with its examples and defaults in force."""
    return re.sub(r"(?m)^#(?=[a-z\[])", "", sample)


def test_the_sample_s_defaults_are_the_defaults_and_name_every_key(tmp_path: Path) -> None:
    text = uncommented(SAMPLE.read_text())
    config = load(written(tmp_path, text))
    assert (
        config.model_copy(
            update={
                "faces": (),
                "authorizations": None,
                "log_file": None,
                "unix": config.unix.model_copy(update={"path": None}),
            }
        )
        == Config()
    )
    table = tomllib.loads(text)

    def keys(model: object) -> set[str]:
        return set(type(model).model_fields)  # type: ignore[attr-defined]

    assert set(table) == keys(config)
    for section in ("unix", "tcp", "udp", "multicast", "ethernet", "metrics", "content_store"):
        assert set(table[section]) == keys(getattr(config, section)), section
    assert set(table["faces"][0]) == keys(config.faces[0])
    assert {key for each in table["strategies"] for key in each} == keys(config.strategies[0])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[udp]\nport = 70000\n", "udp.port"),
        ("[udp]\nprot = 6363\n", "udp.prot: unknown key"),
        ("[tcp]\naddresses = ['localhost']\n", "tcp.addresses.0"),
        ("[[faces]]\n", "faces.0.uri: is missing"),
        ("[[faces]]\nuri = 'x'\n", "faces.0.uri: 'x' is not a FaceUri"),
        ("[[faces]]\nuri = 'udp://a'\npersistency = 'on-demand'\n", "faces.0.persistency"),
        ("[[faces]]\nuri = 'udp://a'\nroutes = ['/a/%zz']\n", "faces.0.routes.0"),
        ("[multicast]\ngroup_ipv4 = '192.0.2.1'\n", "multicast.group_ipv4"),
        ("[ethernet]\ngroup = '02:00:00:00:00:01'\n", "ethernet.group"),
        ("log_level = 'loud'\n", "log_level"),
        ("unix = 3\n", "unix: must be a table"),
        ("[unix\n", "not valid TOML"),
        ("[content_store]\ncapacity = -1\n", "content_store.capacity"),
    ],
)
def test_mistakes_are_one_line_that_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_there_is_no_such_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "none.toml")


def test_the_sample_can_be_printed() -> None:
    result = CliRunner().invoke(forward, ["--sample-config"])
    assert result.exit_code == 0
    assert result.output == SAMPLE.read_text()


def complaint(directory: Path, text: str) -> str:
    """What the command says, in one line, when it cannot start."""
    path = written(directory, text)
    done = subprocess.run(
        [*COMMAND, "--config", str(path)], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = [line for line in done.stderr.splitlines() if " INFO " not in line]
    assert line.startswith("feednet: ")
    return line


def test_what_the_daemon_says_when_it_cannot_start(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        text = CONFIG.replace("port = 0", f"port = {port}", 1)
        assert f"tcp port {port} at 127.0.0.1: Address already in use" in complaint(tmp_path, text)
    assert not (tmp_path / "nfd.sock").exists(), "what had been opened is closed again"
    with running(tmp_path) as other:
        text = CONFIG.replace("port = 0", f"port = {other.port('udp4')}").replace(
            "[tcp]", "[tcp]\nlisten = false"
        )
        assert f"udp port {other.port('udp4')} at 127.0.0.1: Address already in use" in complaint(
            tmp_path, text.replace("nfd.sock", "own.sock")
        )
    assert not (tmp_path / "own.sock").exists(), "what had been opened is closed again"
    strategy = CONFIG + "[[strategies]]\nprefix = '/'\nstrategy = 'worst-route'\n"
    assert "there is no strategy 'worst-route'; there are" in complaint(tmp_path, strategy)
    host = CONFIG + "[[faces]]\nuri = 'udp://no.such.host.invalid'\n"
    assert "no.such.host.invalid" in complaint(tmp_path, host)
    (tmp_path / "mine.py").write_text("raise RuntimeError('no')\n")
    assert "mine.py: RuntimeError: no" in complaint(tmp_path, "strategy_files = ['mine.py']\n" + CONFIG)


def test_a_neighbour_that_is_not_there_yet_is_tried_again(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"tcp4://127.0.0.1:{free.getsockname()[1]}"
        config = CONFIG + f"[[faces]]\nuri = '{uri}'\n"
        with running(tmp_path, config) as daemon:
            wait_until(lambda: f"WARNING {uri}: " in daemon.log.read_text(), "told")
            free.listen()
            free.settimeout(PATIENCE_S)
            neighbour, _ = free.accept()
            neighbour.close()


def test_the_socket_is_where_this_user_may_make_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setattr(unix, "SYSTEM_PATH", tmp_path / "run" / "nfd" / "nfd.sock")
    assert unix.default_path() == tmp_path / "run" / "nfd" / "nfd.sock"
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert unix.default_path() == tmp_path / "runtime" / "nfd" / "nfd.sock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert unix.default_path() == tmp_path / ".ndn" / "nfd" / "nfd.sock"
