"""XML without document types, so that no entity is ever declared, expanded or fetched; and not too much of it."""

from xml.etree.ElementTree import TreeBuilder
from xml.parsers import expat

from ..model.files import first_line

#: The most bytes of a document: those of products have a few hundred thousand.
LARGEST = 1 << 25

# Elements within elements.
_DEEPEST = 100


class _Refused(ValueError):
    """What is XML, but not read."""


def parse(content, path):
    """The root element of a document.

    Parameters
    ----------
    content : bytes
        The whole document.
    path : path
        For messages.

    Returns
    -------
    xml.etree.ElementTree.Element

    Raises
    ------
    ValueError
        One sentence, for what is no XML, declares a document type, or is too large.
    """
    if len(content) > LARGEST:
        raise ValueError(f"{path}: has {len(content)} bytes, too many for metadata in XML")
    builder, parser, depth = TreeBuilder(), expat.ParserCreate(), 0

    def start(name, attributes):
        nonlocal depth
        depth += 1
        if depth > _DEEPEST:
            raise _Refused(f"{path}: its XML is nested too deeply")
        builder.start(name, attributes)

    def end(name):
        nonlocal depth
        depth -= 1
        builder.end(name)

    def refuse(*_):
        raise _Refused(f"{path}: its XML declares a document type, which is not read")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = builder.data, refuse
    try:
        parser.Parse(content, True)
    except _Refused:
        raise
    except (expat.ExpatError, LookupError, ValueError) as error:  # the last two of an encoding that is none
        raise ValueError(f"{path}: cannot be read as XML ({first_line(error)})") from None
    return builder.close()


def parse_file(path):
    """The root element of a file.

    Parameters
    ----------
    path : Path
    """
    with open(path, "rb") as file:
        return parse(file.read(LARGEST + 1), path)


def local(element):
    """The name of an element without its namespace."""
    return element.tag.rpartition("}")[2].rpartition(":")[2]


def texts(root, name):
    """(attributes, text) of every element of a name, whatever its namespace."""
    return [(element.attrib, (element.text or "").strip()) for element in root.iter() if local(element) == name]


def number(text):
    """A text as a float; NaN where it is none."""
    try:
        return float(text)
    except (TypeError, ValueError):
        return float("nan")
