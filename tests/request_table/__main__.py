"""Write the data and the page of the table of requests, and the types: ``cd tests && python -m request_table``."""

from __future__ import annotations

from request_table import request_types
from request_table.table import DATA, PAGE, build_data, data_text, page_text

if __name__ == "__main__":
    data = build_data()
    DATA.write_text(data_text(data))
    PAGE.write_text(page_text(data))
    request_types.DATA.write_text(request_types.types_text(request_types.build_types()))
