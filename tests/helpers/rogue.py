"""A node that does not do what it should.

    python -m rogue FILE.toml CLIENT SUPERLINK AUTHORITY KEY STATES KNOWN MISDEEDS

MISDEEDS, separated by commas, are what it does in the place of an honest answer to its first request for the client, and so on;
"usurp" alone: it answers every message honestly, but before that all those to others whose ids and runs are in the file KNOWN.
"""

import json
import sys
import time
from contextlib import suppress
from pathlib import Path

import jax
import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, Error, Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_object_tree, no_object_id_recompute

from turnout.engines.flower.chunks import SingleObjectMessage
from turnout.engines.flower.keys import read_node_key
from turnout.engines.flower.node_connection import DISCONNECTED, POLL, Connection, fetch, send_reply, stop_at_sigterm
from turnout.engines.flower.payload import BODY, pack, unpack
from turnout.federation.site import app_of
from turnout.io.serialization import decode, encode

LEAVES = {
    "nan": lambda leaf: np.full_like(leaf, np.nan),
    "infinite": lambda leaf: np.where(np.arange(leaf.size).reshape(leaf.shape) == 0, np.inf, leaf),
    "shape": lambda leaf: np.concatenate([leaf, leaf]),
    "type": lambda leaf: leaf.astype("float32"),
    "doubled": lambda leaf: 2 * leaf,
    "huge": lambda leaf: 1e12 * leaf,
}
TREES = {"structure": lambda tree, header: ([tree], header), "counts": lambda tree, header: (tree, {"queries": "many"})}
LETTERS = {"length": lambda letter: letter[:-8], "bytes": lambda letter: b"no letter", "empty": lambda letter: b""}


class RepeatedChunks(Array):
    """An array whose one chunk is to be fetched again and again."""

    def deflate(self):
        head, body = super().deflate().split(b"\0", 1)
        body = json.dumps(json.loads(body) | {"arraychunk_ids": [0] * 200}).encode()
        return b"Array %s %d\0%s" % (head.split(b" ")[1], len(body), body)


def forged(message: Message, reply: Message, misdeed: str) -> Message:
    """Return what is sent in the place of an honest reply."""
    if misdeed == "honest":
        return reply
    if misdeed == "nothing":
        return Message(RecordDict(), reply_to=message)
    if misdeed == "garbled":
        reply = SingleObjectMessage(Message(RecordDict(), reply_to=message), ConfigRecord())
        reply.deflated = b"ConfigRecord  7\0garbled"
        return reply
    if misdeed == "error":
        return Message(Error(0, "it will not"), reply_to=message)
    if misdeed == "repeated":
        chunk = np.random.default_rng(0).bytes(5 * 2**20)
        return Message(pack(ArrayRecord({BODY: RepeatedChunks("uint8", (len(chunk),), "safetensors", chunk)})), reply_to=message)
    letter = unpack(reply.content)[1][:]
    if misdeed in LETTERS:
        return Message(pack(LETTERS[misdeed](letter)), reply_to=message)
    tree, header = decode(letter, None)
    if misdeed in TREES:
        tree, header = TREES[misdeed](tree, header)
        return Message(pack(encode(tree, None, header)), reply_to=message)
    return Message(pack(encode(jax.tree.map(LEAVES[misdeed], tree), None, header)), reply_to=message)


def usurping(known: Path, message: Message) -> list[Message]:
    """Return replies to the messages to others in a file, in the name of the run of `message` and in that of their own."""
    theirs = json.loads(known.read_text()) if known.exists() else []
    made = []
    for number, run in theirs:
        for name in {message.metadata.run_id, run}:
            made.append(Message(pack(b"usurped"), reply_to=message))
            vars(made[-1].metadata).update(_reply_to_message_id=number, _run_id=name)
    return made


def announce(connection: Connection, reply: Message) -> None:
    """Announce a reply whose objects do not follow."""
    with no_object_id_recompute():
        reply.metadata.__dict__["_message_id"] = reply.object_id
        connection.announce(reply, get_object_tree(reply))


def main() -> None:
    """Serve until stopped."""
    file, client, address, authority, key, states, known, misdeeds = sys.argv[1:]
    app, plan, held = app_of(Path(file), int(client), Path(states), None), misdeeds.split(","), []
    stop_at_sigterm()
    with Connection(address, Path(authority), read_node_key(Path(key))) as connection:
        while True:
            got = connection.receive()
            if got is None:
                time.sleep(POLL)
                continue
            message = fetch(connection, *got)
            reply = app(message, Context(0, connection.node.node_id, {}, RecordDict(), {}))
            if misdeeds == "usurp":
                sent = [*usurping(Path(known), message), reply]
            else:
                misdeed = plan.pop(0) if plan and message.metadata.message_type != "query.hello" else "honest"
                sent, held = [*held], []
                if misdeed == "stalled":
                    announce(connection, reply)
                elif misdeed == "late":
                    held = [forged(message, reply, "doubled")]
                elif misdeed == "twice":
                    sent += [reply, forged(message, reply, "doubled")]
                elif misdeed != "missing":
                    sent += [forged(message, reply, misdeed)]
            for each in sent:
                # A run that is over is one of those whose messages are found.
                with suppress(*DISCONNECTED):
                    send_reply(connection, each)


if __name__ == "__main__":
    main()
