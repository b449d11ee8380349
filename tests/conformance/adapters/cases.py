"""What the adapters in Python share: a line of JSON in, a line of JSON out."""

import json
import sys


def answer(read):
    """Read each case from standard input; print what *read* returns for it, or the error that it raises."""
    output, sys.stdout = sys.stdout, sys.stderr  # what a library prints must not come between the lines
    for line in sys.stdin:
        case = json.loads(line)
        try:
            result = read(case)
        except Exception as error:
            result = {"error": f"{type(error).__name__}: {error}"[:500]}
        print(json.dumps({"case": case["case"], **result}), file=output, flush=True)
