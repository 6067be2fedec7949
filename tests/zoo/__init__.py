"""Real models of many families, each captured once and compared with torch at several batches and sizes."""

from __future__ import annotations

from tests.zoo import detection, plain, text, timm_models, vision
from tests.zoo.entry import Entry

ZOO: dict[str, Entry] = {e.name: e for part in (vision, detection, timm_models, text, plain) for e in part.ENTRIES}

# Models that do not pass yet, and why. Their tests fail when they do.
UNSUPPORTED: dict[str, str] = {}
