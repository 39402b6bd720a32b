"""All scenarios."""

import late_stories
import reader_stories
import stories
from telling import STORIES, play

__all__ = ["STORIES", "late_stories", "play", "reader_stories", "stories"]
