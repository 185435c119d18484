"""`python -m fastccpd`."""

import sys

from .cli import main

sys.exit(main())
