"""What Java means where users of Kafka write for Java, and how Java writes: patterns, numbers, the order of maps.

Every pattern that a user or a configuration gives is compiled here. RE2 runs what it can express, in time linear in the
text. What it cannot express (looking around, references back, possessive repetitions, atomic groups) runs with a limit of
time for each match, and is given up when it exceeds the limit again and again.
"""

from ottla.java.maps import SizedMap, hash_ordered
from ottla.java.numbers import double_text, float32, float_text
from ottla.java.regex.errors import PatternCostError, PatternError
from ottla.java.regex.patterns import PATTERN_CHARS_MAX, Found, JavaPattern, compile_java
from ottla.java.regex.re2_syntax import Re2Pattern, compile_re2
from ottla.java.regex.replacing import Replacement
from ottla.java.regex.wildcards import Wildcards

__all__ = [
    "PATTERN_CHARS_MAX",
    "Found",
    "JavaPattern",
    "PatternCostError",
    "PatternError",
    "Re2Pattern",
    "Replacement",
    "SizedMap",
    "Wildcards",
    "compile_java",
    "compile_re2",
    "double_text",
    "float32",
    "float_text",
    "hash_ordered",
]
