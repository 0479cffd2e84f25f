"""A network with delay: `python -m benchmarks.delay PORT TARGET SECONDS` passes connections on, each byte SECONDS later.

TLS passes through unchanged. The target is HOST:PORT, and bytes are late in both directions.
"""

import asyncio
import sys
from contextlib import suppress


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: float) -> None:
    """Write what is read, each part `delay` seconds later."""
    parts: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    async def read() -> None:
        with suppress(ConnectionError):
            while part := await reader.read(2**16):
                parts.put_nowait((loop.time() + delay, part))
        parts.put_nowait((loop.time() + delay, b""))

    reading = asyncio.ensure_future(read())
    with suppress(ConnectionError):
        while True:
            due, part = await parts.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not part:
                break
            writer.write(part)
            await writer.drain()
    reading.cancel()
    writer.close()


async def serve(port: int, target: str, delay: float) -> None:
    """Pass on the connections to a port of this machine until stopped."""
    host, _, number = target.rpartition(":")

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(host, int(number))
        await asyncio.gather(pass_on(reader, back, delay), pass_on(there, writer, delay))

    async with await asyncio.start_server(connect, "127.0.0.1", port, backlog=1024) as server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), sys.argv[2], float(sys.argv[3])))
