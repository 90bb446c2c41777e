"""A UCI engine for tests: it plays the first legal move by name. BEHAVIOUR may be "dies", "illegal" or "silent"."""

import sys

import chess

behaviour = sys.argv[1] if len(sys.argv) > 1 else ""
asked = 0
board = chess.Board()
for line in sys.stdin:
    words = line.split()
    if words[:1] == ["uci"] and behaviour != "silent":
        print("id name Script\nuciok", flush=True)
    elif words[:1] == ["isready"]:
        print("readyok", flush=True)
    elif words[:1] == ["position"]:
        at = words.index("moves") if "moves" in words else len(words)
        board = chess.Board(" ".join(words[2:at]) if words[1] == "fen" else chess.STARTING_FEN)
        for word in words[at + 1 :]:
            board.push_uci(word)
    elif words[:1] == ["go"]:
        asked += 1
        if behaviour == "dies" and asked == 3:
            sys.exit(11)
        move = min(board.legal_moves, key=chess.Move.uci).uci()
        print("bestmove", "a1a1" if behaviour == "illegal" else move, flush=True)
    elif words[:1] == ["quit"]:
        if len(sys.argv) > 2:
            with open(sys.argv[2], "w") as file:
                file.write("quit")
        break
