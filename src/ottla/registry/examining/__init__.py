"""Parsing and comparing schemas outside of the event loop: processes that are ended where a schema keeps them too long."""

from ottla.registry.examining.examiner import Examiner
from ottla.registry.examining.questions import Text, canonical_question, comparison_question, form_question

__all__ = ["Examiner", "Text", "canonical_question", "comparison_question", "form_question"]
