"""The public side of a SuperLink: SuperNodes come in here, and nothing else does.

Flower serves three things at one port: what SuperNodes ask (``/v1/fleet/``), what the commands of
``flwr`` ask (``/v1/control/``), and what an app's own processes ask. Whoever may ask for the second
sends code that the SuperLink and every client run. So the SuperLink listens on the loopback
interface, and this program, on a public one, passes on the first alone.

    python -m fedsim.engines.deploy.gate TLS --port 8000 --link 8001

TLS is the folder of ``certificates.write``, whose certificate the gate shows and the SuperLink has,
too; so it is for 127.0.0.1 as well.
"""

import argparse
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from fedsim.engines.deploy.certificates import Certificates, in_folder
from fedsim.engines.deploy.ports import LOOPBACK

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

PASSED = re.compile(r"/v1/fleet/[a-z-]+")
_OWN = (b"host", b"connection", b"transfer-encoding", b"keep-alive", b"upgrade")
"""Headers of one connection, which do not travel to the next."""


class Gate:
    """An ASGI app that passes requests of SuperNodes on to the SuperLink and refuses all others.

    Args:
        link: the SuperLink's port on the loopback interface.
        certificates: of the SuperLink.
    """

    def __init__(self, link: int, certificates: Certificates) -> None:
        import httpx

        trusted = ssl.create_default_context(cafile=certificates.authority)
        self._client = httpx.AsyncClient(
            base_url=f"https://{LOOPBACK}:{link}", verify=trusted, timeout=None, trust_env=False
        )

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """One request."""
        import httpx

        if scope["type"] != "http" or not PASSED.fullmatch(scope["path"]):
            await _answer(send, 403, "this port is for SuperNodes alone")
            return

        async def body() -> AsyncIterator[bytes]:
            more = True
            while more:
                part = await receive()
                yield part.get("body", b"")
                more = part.get("more_body", False)

        headers = [(name, value) for name, value in scope["headers"] if name not in _OWN]
        request = self._client.build_request(
            scope["method"], scope["path"], headers=headers, content=body()
        )
        try:
            answer = await self._client.send(request, stream=True)
        except httpx.TransportError as error:
            await _answer(send, 502, f"the SuperLink cannot be reached: {error}")
            return
        headers = [(name.lower(), value) for name, value in answer.headers.raw]
        headers = [(name, value) for name, value in headers if name not in _OWN]
        status = answer.status_code
        await send({"type": "http.response.start", "status": status, "headers": headers})
        async for part in answer.aiter_raw():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await answer.aclose()
        await send({"type": "http.response.body"})


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": text.encode() + b"\n"})


def main(given: Sequence[str] | None = None) -> None:
    """Listens until it is stopped."""
    import uvicorn

    program = "python -m fedsim.engines.deploy.gate"
    parser = argparse.ArgumentParser(prog=program, description=_ABOUT)
    parser.add_argument("tls", type=Path, metavar="TLS", help="folder of the certificates")
    parser.add_argument("--host", default="0.0.0.0", help="where to listen (default: everywhere)")
    parser.add_argument("--port", type=int, default=8000, help="of SuperNodes (default: 8000)")
    parser.add_argument("--link", type=int, default=8001, help="of the SuperLink (default: 8001)")
    flags = parser.parse_args(given)
    files = in_folder(flags.tls)
    uvicorn.run(
        Gate(flags.link, files), host=flags.host, port=flags.port, lifespan="off", ws="none",
        ssl_certfile=files.certificate, ssl_keyfile=files.key, log_level="warning",
    )  # fmt: skip


_ABOUT = "Passes requests of SuperNodes on to a SuperLink on the loopback interface; no others."

if __name__ == "__main__":
    main()
