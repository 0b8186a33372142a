"""A kanban board over HTTP: as many processes as you like, each with the whole board, each of them writable.

    python examples/board.py ada  --listen 127.0.0.1:7501 --http 8501
    python examples/board.py bob  --listen 127.0.0.1:7502 --http 8502 --join 127.0.0.1:7501
    curl -d '{"title": "write the guide", "column": "todo"}' localhost:8501/cards
    curl localhost:8502/board

Moves of one card at two places at once are both kept until a later one has seen both; the board shows the one
with the greater name. A move wins over a delete that has not seen it: so a deleted card is remembered (a
tombstone) until every process has the delete, and no move can come any more that has not.
"""

import argparse
import asyncio
import json
from contextlib import suppress
from typing import Any

import thence

COLUMNS = ("todo", "doing", "done")

Dot = tuple[str, int]


class Board:
    """The state: every operation is applied to it, in causal order, with a tag that says what it had seen."""

    def __init__(self) -> None:
        self.titles: dict[str, str] = {}
        self.moves: dict[str, list[tuple[str, Dot]]] = {}
        """Per card where it was put, and by which operation: several if they did not see each other."""
        self.deleted: dict[str, Dot] = {}
        """Tombstones, with the last delete of each."""

    def apply(self, event: thence.Delivered) -> None:
        assert event.tag is not None
        tag, operation = event.tag, json.loads(event.payload)
        card = operation.get("card") or name_of(tag.dot)
        if "title" in operation:
            self.titles[card] = operation["title"]
        unseen = [(column, dot) for column, dot in self.moves.get(card, []) if not tag.saw(*dot)]
        if "column" in operation:
            unseen.append((operation["column"], tag.dot))
            self.deleted.pop(card, None)
        elif not unseen:
            self.deleted[card] = tag.dot
        self.moves[card] = unseen

    def stable(self, event: thence.Stable) -> None:
        """Whatever comes from now on has seen this: a tombstone for it would keep nothing away."""
        for card, (origin, seq) in list(self.deleted.items()):
            if origin == event.origin and seq <= event.seq:
                del self.deleted[card], self.titles[card], self.moves[card]

    def state(self) -> bytes:
        return json.dumps([self.titles, self.moves, self.deleted]).encode()

    def install(self, state: bytes) -> None:
        titles, moves, deleted = json.loads(state) if state else ({}, {}, {})
        self.titles = titles
        self.moves = {card: [(column, (dot[0], dot[1])) for column, dot in at] for card, at in moves.items()}
        self.deleted = {card: (dot[0], dot[1]) for card, dot in deleted.items()}

    def shown(self) -> dict[str, Any]:
        columns: dict[str, dict[str, str]] = {column: {} for column in COLUMNS}
        for card, moves in sorted(self.moves.items()):
            if moves:
                columns[max(moves, key=lambda move: move[1])[0]][card] = self.titles[card]
        return {"columns": columns, "tombstones": len(self.deleted)}


def name_of(dot: Dot) -> str:
    return f"{dot[0]}.{dot[1]}"


class RequestError(Exception):
    """Said to the client."""


async def serve(node: thence.Node, board: Board, method: str, path: str, body: bytes) -> object:
    """What a request is answered: when it is in the log."""
    match method, path.strip("/").split("/"):
        case "GET", ["board"]:
            return board.shown() | {"me": node.me, "members": node.members}
        case "POST", ["cards"]:
            asked = read(body)
            if not asked.get("title"):
                raise RequestError('a card needs a title: {"title": "…", "column": "todo"}')
            tag = await node.broadcast(operation(title=str(asked["title"]), column=column_of(asked)))
            return {"card": name_of(tag.dot)}
        case "POST", ["cards", card, "move"] if card in board.titles:
            await node.broadcast(operation(card=card, column=column_of(read(body))))
            return {"card": card}
        case "DELETE", ["cards", card] if card in board.titles:
            await node.broadcast(operation(card=card))
            return {"card": card}
    raise RequestError(f"no such thing: {method} {path}")


def operation(**words: str) -> bytes:
    return json.dumps(words).encode()


def read(body: bytes) -> dict[str, Any]:
    try:
        asked = json.loads(body)
    except ValueError:
        asked = None
    if not isinstance(asked, dict):
        raise RequestError('say it in JSON: {"title": "…", "column": "todo"}')
    return asked


def column_of(asked: dict[str, Any]) -> str:
    if asked.get("column", "todo") not in COLUMNS:
        raise RequestError(f"columns are {', '.join(COLUMNS)}")
    return str(asked.get("column", "todo"))


async def answer(
    node: thence.Node, board: Board, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """As much of HTTP as a browser or curl needs."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, path, _ = head[0].split(" ")
        lengths = [line.split(":")[1] for line in head if line.lower().startswith("content-length:")]
        body = await reader.readexactly(int(lengths[0]) if lengths else 0)
        status, said = "200 OK", await serve(node, board, method, path, body)
    except (RequestError, ValueError) as error:
        status, said = "400 Bad Request", {"error": str(error)}
    except thence.ThenceError as error:
        status, said = "503 Service Unavailable", {"error": str(error)}
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
        writer.close()
        return
    text = json.dumps(said).encode() + b"\n"
    writer.write(f"HTTP/1.1 {status}\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n".encode())
    writer.write(text)
    await writer.drain()
    writer.close()


async def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("name")
    parser.add_argument("--listen", required=True, help="where other processes reach this one, HOST:PORT")
    parser.add_argument("--join", action="append", default=[], help="where another one is")
    parser.add_argument("--http", type=int, default=0, help="the port of the board; default: a free one")
    parser.add_argument("--data", help="its folder; default: board-NAME")
    words = parser.parse_args()
    board, data = Board(), words.data or f"board-{words.name}"
    # A process that was evicted may return with moves of cards that were deleted meanwhile: as long as one
    # may, nothing is told as stable, and tombstones stay.
    settings = {"profile": "local", "http": "none", "stability.waits_for_absent": True}
    async with thence.open(
        words.name, listen=words.listen, join=words.join, data=data, application=board, settings=settings
    ) as node:
        server = await asyncio.start_server(lambda r, w: answer(node, board, r, w), "127.0.0.1", words.http)
        print(f"board of {node.me}: http://127.0.0.1:{server.sockets[0].getsockname()[1]}/board", flush=True)
        async with server:
            await server.serve_forever()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        asyncio.run(main())
