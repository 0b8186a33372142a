"""The command line as a script for spark-submit, which has started Spark already and chosen where it runs.

spark-submit --master … $(python -m thence.cli.submit) verify TRACE --json
"""

import os
import sys

from thence.cli.main import main

if __name__ == "__main__":
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        sys.exit(main())
    print(__file__)
