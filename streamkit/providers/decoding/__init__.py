"""What parsers share: chunks as structs or lenient JSON, finish reasons, detection, errors."""
