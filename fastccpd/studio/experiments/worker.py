"""A process that turns tasks into rows: a line of JSON on its standard input for each line it answers.

It ends with its input, so that it does not outlive the process that feeds it, however that one ends.
"""

import json
import os
import sys

from .measuring import Task, measure


def main():
    # Standard output is for rows alone; whatever a library prints goes to standard error.
    answers = os.dup(1)
    os.dup2(2, 1)
    for line in sys.stdin:
        row = json.dumps(measure(Task(**json.loads(line)))) + "\n"
        try:
            with os.fdopen(answers, "w", encoding="ascii", closefd=False) as stream:
                stream.write(row)
        except BrokenPipeError:  # nobody is waiting for the answer any more
            return


if __name__ == "__main__":
    main()
