"""From a text or JSON to the compressor that it names; ``printing`` is the way back."""
