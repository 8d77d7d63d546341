"""Flight SQL's messages by hand, for pyarrow, which speaks Flight but has no Flight SQL client: protobuf, a few fields of it."""

import pyarrow.flight as flight

PREFIX = "type.googleapis.com/arrow.flight.protocol.sql."


def varint(number):
    encoded = b""
    while number > 0x7F:
        encoded += bytes([number & 0x7F | 0x80])
        number >>= 7
    return encoded + bytes([number])


def field(number, content):
    """A field of type string or bytes."""
    content = content.encode() if isinstance(content, str) else bytes(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


def command(name, *fields):
    """A command inside google.protobuf.Any; `fields` are its fields 1, 2, …"""
    body = b"".join(field(at, content) for at, content in enumerate(fields, 1))
    return field(1, PREFIX + name) + field(2, body)


def query(sql):
    """The descriptor of a statement."""
    return flight.FlightDescriptor.for_command(command("CommandStatementQuery", sql))


def read(client, sql, options=None):
    """The result of a statement, and the schema it was announced with."""
    info = client.get_flight_info(query(sql), options)
    return client.do_get(info.endpoints[0].ticket, options).read_all(), info.schema


def action(name, message, *fields):
    """An action with its message inside Any."""
    return flight.Action(name, command(message, *fields))
