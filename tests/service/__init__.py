"""Tests of what services share."""
