"""Files made with code: small documents of each kind, and the hostile ones that no folder should have."""

import io
import struct
import zipfile
import zlib
from collections.abc import Iterable
from xml.sax.saxutils import escape

Part = tuple[str, str | bytes]
TYPES = '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"/>'
WORD = (
    '<?xml version="1.0"?>{declared}<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
    "<w:body><w:p><w:r><w:t>{text}</w:t></w:r></w:p></w:body></w:document>"
)
OPEN_DOCUMENT = (
    '<?xml version="1.0"?><office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
    ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><office:body><office:text>'
    '<text:h text:outline-level="1">{title}</text:h><text:p>{text}</text:p>'
    "</office:text></office:body></office:document-content>"
)
LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
BILLION_LAUGHS = f'<!DOCTYPE l [<!ENTITY l0 "lol">{LAUGHS}]>'
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"


def zipped(parts: Iterable[Part], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in parts:
            archive.writestr(name, content)
    return file.getvalue()


def docx(text: str = "hello", *parts: Part, declared: str = "") -> bytes:
    return zipped(
        [
            ("[Content_Types].xml", TYPES),
            ("word/document.xml", WORD.format(text=text, declared=declared)),
            *parts,
        ]
    )


def odt(title: str, text: str, *parts: Part) -> bytes:
    content = OPEN_DOCUMENT.format(title=title, text=text)
    return zipped([("mimetype", "application/vnd.oasis.opendocument.text"), ("content.xml", content), *parts])


def with_false_sizes(archive: bytes, size: int = 1000) -> bytes:
    """The same archive, each part of which claims to unpack to `size` bytes."""
    lying = bytearray(archive)
    for signature, offset in ((b"PK\1\2", 24), (b"PK\3\4", 22)):
        at = -1
        while (at := lying.find(signature, at + 1)) >= 0:
            struct.pack_into("<I", lying, at + offset, size)
    return bytes(lying)


def png(width: int, height: int, shade: int = 0) -> bytes:
    """A picture of one shade; of a size that memory cannot hold, only its beginning."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes([shade]) * width) * min(height, 1000)
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(rows))
        + chunk(b"IEND", b"")
    )


def ole(stream: str, sector: bytes = b"") -> bytes:
    """The container of old office files, with one named stream whose first sector is `sector`."""
    return OLE.ljust(512, b"\0") + stream.encode("utf-16-le").ljust(512, b"\0") + sector.ljust(512, b"\0")


_WORKBOOK = {
    "[Content_Types].xml": '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="xml" ContentType="application/xml"/><Default Extension="rels"'
    ' ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml"'
    ' ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/><Override'
    ' PartName="/xl/worksheets/sheet1.xml"'
    ' ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.worksheet+xml"/></Types>',
    "_rels/.rels": '<?xml version="1.0"?><Relationships'
    ' xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1"'
    ' Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"'
    ' Target="xl/workbook.xml"/></Relationships>',
    "xl/workbook.xml": '<?xml version="1.0"?><workbook'
    ' xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
    ' xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="a"'
    ' sheetId="1" r:id="r1"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<?xml version="1.0"?><Relationships'
    ' xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="r1"'
    ' Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet"'
    ' Target="worksheets/sheet1.xml"/></Relationships>',
}


def xlsx(lines: Iterable[Iterable[str]]) -> bytes:
    """A workbook of one sheet, each cell a text."""
    rows = "".join("<row>" + "".join(map(_cell, line)) + "</row>" for line in lines)
    sheet = (
        '<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
        f"<sheetData>{rows}</sheetData></worksheet>"
    )
    return zipped([*_WORKBOOK.items(), ("xl/worksheets/sheet1.xml", sheet)])


def _cell(text: str) -> str:
    return f'<c t="inlineStr"><is><t>{escape(text)}</t></is></c>'


Scan = tuple[int, int, bytes]
"""Width and height in pixels, and the picture itself as JPEG."""


def pdf(*pages: str | Scan) -> bytes:
    """A document of pages of one line each, or of one picture that fills the page."""
    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b""]
    kids = []
    for page in pages:
        if isinstance(page, str):
            used = b"/Font << /F << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >>"
            drawn = f"BT /F 12 Tf 72 720 Td ({page}) Tj ET".encode("latin-1")
        else:
            width, height, data = page
            head = (
                f"<< /Type /XObject /Subtype /Image /Width {width} /Height {height} /ColorSpace /DeviceRGB"
                f" /BitsPerComponent 8 /Filter /DCTDecode /Length {len(data)} >>"
            )
            objects.append(_stream(head, data))
            used = f"/XObject << /I {len(objects)} 0 R >>".encode()
            drawn = b"q 595 0 0 842 0 0 cm /I Do Q"
        objects.append(_stream(f"<< /Length {len(drawn)} >>", drawn))
        objects.append(
            b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Resources << %s >> /Contents %d 0 R >>"
            % (used, len(objects))
        )
        kids.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(kids)}] /Count {len(kids)} >>".encode()
    file = io.BytesIO(b"%PDF-1.4\n")
    file.seek(0, io.SEEK_END)
    places = []
    for number, one in enumerate(objects, 1):
        places.append(file.tell())
        file.write(b"%d 0 obj\n%s\nendobj\n" % (number, one))
    start = file.tell()
    file.write(b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1))
    file.write(b"".join(b"%010d 00000 n \n" % place for place in places))
    file.write(b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, start))
    return file.getvalue()


def _stream(head: str, data: bytes) -> bytes:
    return head.encode() + b"\nstream\n" + data + b"\nendstream"
