"""Numerical system tests, by what they are about; packages, because their files share names with other tests."""
