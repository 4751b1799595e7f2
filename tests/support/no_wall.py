"""Runs a front without shutting it in, so that a test can be seen to fail."""

import json
import os
import sys

if __name__ == "__main__":
    command = json.loads(sys.argv[1])["command"]
    os.execv(command[0], command)  # noqa: S606
