"""All words that the page explains: those of settings, then those of models, plans and schedules."""

from __future__ import annotations

from explorer.question.settings import (
    ClusterSettings,
    MemorySettings,
    PipelineSettings,
    SearchSettings,
    TracingSettings,
    TrainingSettings,
    declared,
)
from explorer.question.written.declaring import Group
from explorer.words import glossary
from explorer.words.glossary import CLUSTER, MODEL, PIPELINE, SEARCH, Term

PART_OF: dict[type[Group], str] = {
    TracingSettings: MODEL,
    ClusterSettings: CLUSTER,
    MemorySettings: CLUSTER,
    TrainingSettings: CLUSTER,
    PipelineSettings: PIPELINE,
    SearchSettings: SEARCH,
}
"""The heading under which a group's words are listed."""

_OF_SETTINGS = {
    one.control.key: Term(one.control.heading, one.control.meaning, part)
    for group, part in PART_OF.items()
    for one in declared(group)
    if one.control is not None
}
TERMS = _OF_SETTINGS | glossary.TERMS
"""By the name under which the page refers to them."""

KEYS = {term.word: key for key, term in TERMS.items()}
"""The other way round."""
