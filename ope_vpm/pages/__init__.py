"""How every page is written: HTML whose text is escaped, small SVG figures, and one frame around them."""

from ope_vpm.pages.html import framed_page, static, write_page

__all__ = ["framed_page", "static", "write_page"]
