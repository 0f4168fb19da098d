"""`feednet forward` while it runs: signals, reloads, a supervisor, termination."""

import asyncio
import logging
import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Thread

from forwarder.daemon import logs, supervisor
from forwarder.daemon.config import Config, ConfigError, load
from forwarder.daemon.daemon import Daemon
from forwarder.daemon.metrics import Metrics
from forwarder.daemon.plan import Plan, load_strategies, prepare

log = logging.getLogger("feednet")


def raise_file_limit() -> None:
    """Allow this process as many open files as its user may: every face takes one."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _open_log(config: Config) -> logs.LogFile | None:
    if config.log_file is None:
        return None
    try:
        return logs.LogFile(Path(config.log_file))
    except OSError as error:
        raise ConfigError(f"log_file: {config.log_file}: {error.strerror or error}") from error


class Service:
    """A forwarder that follows its configuration file.

    Args:
        path: of the file; None for the defaults.
        loop: the running event loop.

    Raises ConfigError.
    """

    def __init__(self, path: Path | None, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        config = load(path)
        logs.set_up(config.log_level, _open_log(config))
        load_strategies(config)
        self._daemon = Daemon(prepare(config), loop)
        self._metrics = Metrics(self._daemon, config.metrics)

    async def start(self) -> list[str]:
        """Open everything; return the FaceUris to listen at. Raises ConfigError, and has closed all then."""
        uris = self._daemon.start()
        try:
            for url in await self._metrics.start():
                log.info("counters at %s", url)
        except ConfigError:
            self._daemon.close()
            raise
        return uris

    async def follow(self, asked: asyncio.Event) -> None:
        """Serve requests to reload; those that arrive during a reload are merged into one."""
        while True:
            await asked.wait()
            asked.clear()
            supervisor.notify_reloading()
            try:
                await self._reload()
            except ConfigError as error:
                self._metrics.reloads["refused"] += 1
                log.error("not reloaded, all stays as it was: %s", error)
            except Exception:  # a fault of ours must not end what runs
                self._metrics.reloads["failed"] += 1
                log.exception("reload failed")
            supervisor.tell("READY=1")

    async def _reload(self) -> None:
        plan = await self._read()
        file = _open_log(plan.config)
        try:
            later = await self._daemon.reload(plan)
        except ConfigError:
            if file is not None:
                file.close()
            raise
        logs.set_up(plan.config.log_level, file)
        self._metrics.reloads["done"] += 1
        log.info("reloaded %s", self._path or "the defaults")
        if later:
            log.warning("these keys take effect after a restart: %s", ", ".join(later))

    async def _read(self) -> Plan:
        """Read the file beside the traffic: a host's address may take seconds. Raises ConfigError."""
        read: asyncio.Future[Plan] = self._loop.create_future()

        def put(result: Plan | Exception) -> None:
            if not read.done():
                read.set_exception(result) if isinstance(result, Exception) else read.set_result(result)

        def work() -> None:
            result: Plan | Exception
            try:
                result = prepare(load(self._path))
            except Exception as error:  # raised where the future is awaited
                result = error
            with suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(put, result)

        # Not the loop's executor: its end would wait for a name server that does not answer.
        Thread(target=work, name="reading the configuration", daemon=True).start()
        return await read

    def close(self) -> None:
        """Close everything, and remove the socket file."""
        self._metrics.close()
        self._daemon.close()


async def run(path: Path | None, on_ready: Callable[[list[str]], None]) -> None:
    """Run a forwarder by a configuration file until SIGINT or SIGTERM, or until its terminal is gone.

    SIGHUP reloads the file; SIGUSR1 and SIGUSR2 have no meaning, and are logged.

    Args:
        path: of the file; None for the defaults.
        on_ready: called with the FaceUris to listen at.

    Raises ConfigError.
    """
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, ended.set)
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(number, log.info, "%s has no meaning here", number.name)
    is_at_terminal = os.isatty(0) and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    asked_to_reload = asyncio.Event()

    def hang_up() -> None:
        if is_at_terminal and not os.isatty(0):  # it was closed: nobody can stop this any more
            ended.set()
        else:
            asked_to_reload.set()

    loop.add_signal_handler(signal.SIGHUP, hang_up)
    raise_file_limit()
    service = Service(path, loop)
    on_ready(await service.start())
    supervisor.tell("READY=1", f"MAINPID={os.getpid()}")
    following = loop.create_task(service.follow(asked_to_reload))
    watching = loop.create_task(_keep_alive())
    try:
        await ended.wait()
    finally:
        supervisor.tell("STOPPING=1")
        log.info("closing")
        following.cancel()
        watching.cancel()
        service.close()


async def _keep_alive() -> None:
    """Notify a supervisor with a watchdog that the event loop is alive."""
    every = supervisor.watchdog_s()
    while every is not None:
        supervisor.tell("WATCHDOG=1")
        await asyncio.sleep(every)
