"""Process `api`: clients, tasks, steps. `python -m wardarm.api.main --config FILE`.

In: clients (gRPC), arm status, gate status, progress, words. Out: step, command, own word, tasks on disk.
Deadline: its word every `gate.beat_ms`. When it dies its word goes stale: gate drops the permit and the arm comes to
rest; tasks that ran are INTERRUPTED after the restart and never continued by themselves.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys

from wardarm import config as configuration
from wardarm import journal
from wardarm.api import server
from wardarm.api.loop import ControlLoop
from wardarm.api.store import StoreUnusable
from wardarm.config import Config, ConfigError
from wardarm.shm.ring import BlockError

GRACE_S = 0.5


async def serve(config: Config) -> None:
    """Serve until SIGTERM or SIGINT. Raises CannotListen, StoreUnusable, BlockError."""
    loop = ControlLoop(config)
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    try:
        servers = await server.start(loop)
        loop.serving()
        loop.log.info("serving", extra={"address": config.api.address, "stop_address": config.api.stop_address})
        beat = asyncio.create_task(loop.run())
        waiting = asyncio.create_task(ended.wait())
        await asyncio.wait({beat, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if beat.done():
            beat.result()  # the loop ends only by an error: raise it, the supervisor restarts this process
        beat.cancel()
        waiting.cancel()
        await asyncio.gather(*(s.stop(GRACE_S) for s in servers))
    finally:
        loop.close()


def main() -> int:
    parser = argparse.ArgumentParser(description="Process 'api' of wardarm: clients, tasks, steps.")
    parser.add_argument("--config", required=True, help="a configuration file, or 'desk' / 'thor'")
    try:
        config = configuration.load(parser.parse_args().config)
        journal.setup("api", config)
        asyncio.run(serve(config))
    except (ConfigError, server.CannotListen, StoreUnusable, BlockError) as e:
        print(e, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
