"""The commands of `chess-lab`, one module each, imported when it runs."""

# Command -> what it does. Each is the function `run` of the module of its name in this folder, which also
# has EXAMPLES for the end of its help.
COMMANDS = {
    "train": "train a policy by self-play, or continue a run",
    "pretrain": "learn from labelled positions or from games, before training",
    "compare": "compare algorithms over seeds: which differences are significant",
    "report": "make one HTML page of a run, or of a folder of runs",
    "causes": "list, show or run the causes of entropy collapse",
    "remedies": "try remedies against the causes: which cures what, and its cost",
    "diagnose": "say what a run's record shows: its outcome and its causes",
    "board": "play in the browser, and see what a policy makes of a position",
    "uci": "play: a trained policy as a UCI engine for a chess GUI",
    "eval": "measure a policy's strength in games against a ladder of opponents",
    "push": "put a run's policy on the Hugging Face Hub, or into a folder, with a model card",
    "pull": "fetch a policy that was pushed, and verify every file",
    "check": "say what is installed, or how an evaluator pays obvious moves",
    "completion": "print a script that completes commands, names and flags in a shell",
}
