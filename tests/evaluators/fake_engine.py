"""A UCI engine without chess, for faults that a real engine cannot be made to show on demand.

It scores a position by a checksum of its FEN. `BEHAVIOUR` and `MARKER` are filled in by the fixture that writes
the script; a behaviour called `..._once` is shown by one process only, the one that first makes the marker file.
"""

import os
import signal
import sys
import time
import zlib

BEHAVIOUR = "good"
MARKER = ""
NAME = "Stockfish Fake 1"


def first_of_all(number: int = 1) -> bool:
    """Whether this is one of the first `number` processes to ask."""
    for which in range(number):
        try:
            os.close(os.open(f"{MARKER}{which or ''}", os.O_CREAT | os.O_EXCL))
            return True
        except FileExistsError:
            pass
    return False


def fall(how: str) -> None:
    """What somebody else does to this process."""
    os.kill(os.getpid(), signal.SIGSTOP if how == "stopped" else signal.SIGKILL)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def score_of(fen: str) -> int:
    return zlib.crc32(fen.encode()) % 1000 - 500


def answer(fen: str, misbehave: bool, answered: int) -> None:
    placement = fen.split(" ", maxsplit=1)[0]
    if f"dies_on {placement}" == BEHAVIOUR:
        os._exit(11)
    if f"hangs_on {placement}" == BEHAVIOUR:
        time.sleep(3600)
    if f"works_on {placement}" == BEHAVIOUR and first_of_all():
        while not os.path.exists(f"{MARKER}_done"):
            time.sleep(0.01)
    for how in ("stopped", "killed"):
        if f"{how}_thrice_on {placement}" == BEHAVIOUR and first_of_all(3):
            fall(how)
    if f"dies_when_tried_on {placement}" == BEHAVIOUR and answered:
        os._exit(11)
    if f"dies_once_in_a_while_on {placement}" == BEHAVIOUR and first_of_all(3):
        os._exit(11)
    while f"drones_on {placement}" == BEHAVIOUR:
        say("info depth 3 score cp 12 nodes 1 pv e2e4")
        time.sleep(0.01)
    if f"babbles_on {placement}" == BEHAVIOUR:
        say("info depth 4 score cp twelve nodes 1 pv e2e4\nbestmove e2e4")
        return
    if misbehave and BEHAVIOUR == "babbles_once":
        say("\x00\xff info score score cp\nbestmove\ninfo depth 1 score cp x\nbestmove 0000")
        return
    if misbehave and BEHAVIOUR == "floods_once":
        sys.stdout.write("x" * (5 << 20))
        time.sleep(3600)
    if misbehave and BEHAVIOUR == "answers_twice_once":
        say("info depth 4 score cp 777 nodes 1 pv e2e4\nbestmove e2e4")
    say("info depth 3 score cp 4321 nodes 1 pv e2e4")
    say(f"info depth 4 score cp {score_of(fen)} nodes 1 pv e2e4\nbestmove e2e4 ponder e7e5")


def main() -> None:
    if BEHAVIOUR == "dies_at_start":
        print("cannot open libfancy.so.6")
        sys.exit(127)
    once = BEHAVIOUR.endswith("_once") and first_of_all()
    if BEHAVIOUR == "dies_at_later_starts" and not first_of_all():
        sys.exit(127)
    fen, count = "", 0
    for line in sys.stdin:
        command, _, rest = line.strip().partition(" ")
        if BEHAVIOUR == "silent":
            continue
        if command == BEHAVIOUR.removeprefix("killed_at_first_") and first_of_all(2):
            fall("killed")
        if command == "uci":
            name = NAME
            if BEHAVIOUR == "other_engine":
                name = "GNU Chess 6"
            if BEHAVIOUR == "updated" and not first_of_all():
                name = "Stockfish Fake 2"
            say(f"id name {name}\noption name Threads type spin default 1 min 1 max 8")
            say("option name EvalFile type string default nn-0.nnue")
            say("option name Hash type spin default 16 min 1 max 64")
            say("option name MultiPV type spin default 1 min 1 max 500\nuciok")
        elif command == "isready":
            say("readyok")
        elif command == "position":
            fen = rest.removeprefix("fen ")
        elif command == "go":
            count += 1
            if BEHAVIOUR == "dies_always":
                os._exit(1)
            answer(fen, once and count == 5, count - 1)


main()
