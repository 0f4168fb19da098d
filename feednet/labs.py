"""What the notebooks of labs use: the check of answers, the items that subscribers got, and broken rules.

`from feednet.labs import check, deliveries`
"""

from feednet import rooms

rooms.check()

from testbed.cli.extras import need  # noqa: E402

need("testbed", by=__name__)

from testbed.labs.broken import Broken, broken  # noqa: E402
from testbed.labs.check import Verdicts, check  # noqa: E402
from testbed.labs.folder import deliveries  # noqa: E402

__all__ = ["Broken", "Verdicts", "broken", "check", "deliveries"]
