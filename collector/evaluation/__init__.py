"""The offline half: a golden set put to an assistant, two runs compared, a release gated.

`commands` is the command line. `run` asks the `targets` and measures the answers (`measures`),
durably (`folder`). `report`, `compare` and `gate` are arithmetic on the rows of runs.
"""
