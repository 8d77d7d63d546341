"""Users, passwords and tokens."""

import subprocess
import threading
import time

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from protocol import command, query, read
from server import SIM, VCZ, Relay, Server, value

pytestmark = pytest.mark.alone

STATIC = "3f786850e387550fdab836ed7e6dc881de23001b"
UNAUTHENTICATED = (flight.FlightUnauthenticatedError,)


def line(name, password):
    """The line of a user, as the program makes it."""
    made = subprocess.run([VCZ, "serve", "--hash-password", name], input=password + "\n", capture_output=True, text=True, check=True)
    assert password not in made.stdout
    return made.stdout


@pytest.fixture(scope="module")
def users(tmp_path_factory):
    file = tmp_path_factory.mktemp("users") / "users"
    file.write_text(f"# people\n{line('ada', 'correct horse')}{line('eve', 'battery staple')}\ntoken pipeline {STATIC}\n")
    return file


@pytest.fixture
def closed(users):
    with Server(*SIM, "--auth-file", users) as server:
        yield server


def bearer(token):
    return flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token.encode())])


def login(server, name, password):
    """The options of a client that has logged in, and its token."""
    header = server.flight().authenticate_basic_token(name, password)
    return flight.FlightCallOptions(headers=[header]), header[1].decode().removeprefix("Bearer ")


def test_login(closed):
    connection = closed.adbc(username="ada", password="correct horse")
    assert value(connection, "SELECT count(*) FROM sim") == 7402
    options, token = login(closed, "ada", "correct horse")
    assert read(closed.flight(), "SELECT 1 AS a", options)[0].num_rows == 1
    assert len(token) == 96


def test_static_token(closed):
    assert read(closed.flight(), "SELECT 1 AS a", bearer(STATIC))[0].num_rows == 1
    connection = closed.adbc(**{"adbc.flight.sql.authorization_header": f"Bearer {STATIC}"})
    assert value(connection, "SELECT count(*) FROM sim") == 7402


@pytest.mark.parametrize("name, password", [("ada", "wrong"), ("ada", ""), ("nobody", "correct horse"), ("", ""), ("ada", "battery staple")])
def test_wrong_passwords(closed, name, password):
    started = time.monotonic()
    with pytest.raises(UNAUTHENTICATED, match="wrong|log in"):
        login(closed, name, password)
    if name:
        assert time.monotonic() - started > 0.4, "answered late"
    with pytest.raises(Exception, match="(?i)unauthenticated"):
        closed.adbc(username=name or "x", password=password)


def test_nothing_is_answered_without_login(closed):
    client = closed.flight()
    _, real = login(closed, "ada", "correct horse")
    forged = real[:-1] + ("0" if real[-1] != "0" else "1")
    for options in [None, bearer(""), bearer("x"), bearer(forged), bearer("0" * 96), bearer(STATIC[:-1]),
                    flight.FlightCallOptions(headers=[(b"authorization", b"Basic YWRhOmNvcnJlY3QgaG9yc2U=")])]:
        for call in [
            lambda: client.get_flight_info(query("SELECT 1"), options),
            lambda: client.get_schema(query("SELECT 1"), options),
            lambda: client.get_flight_info(flight.FlightDescriptor.for_command(command("CommandGetTables")), options),
            lambda: client.do_get(flight.Ticket(command("CommandGetTables")), options).read_all(),
            lambda: list(client.do_action(flight.Action("ListAnything", b""), options)),
            lambda: list(client.list_actions(options)),
            lambda: list(client.list_flights(options=options)),
        ]:
            # pyarrow has no class for it in every call.
            with pytest.raises((*UNAUTHENTICATED, OSError), match="log in"):
                call()


def test_tickets_and_statements_belong_to_their_user(closed):
    client = closed.flight()
    (ada, _), (eve, _) = login(closed, "ada", "correct horse"), login(closed, "eve", "battery staple")
    ticket = client.get_flight_info(query("SELECT 1 AS a"), ada).endpoints[0].ticket
    with pytest.raises(pa.ArrowKeyError, match="no such planned query"):
        client.do_get(ticket, eve).read_all()
    assert client.do_get(ticket, ada).read_all().num_rows == 1
    # A login of the same user is the same user, with settings of its own.
    again, _ = login(closed, "ada", "correct horse")
    ticket = client.get_flight_info(query("SELECT 1 AS a"), ada).endpoints[0].ticket
    assert client.do_get(ticket, again).read_all().num_rows == 1
    read(client, "SET datafusion.execution.batch_size = 11", ada)
    shown = lambda options: read(client, "SHOW datafusion.execution.batch_size", options)[0].to_pylist()[0]["value"]
    assert (shown(ada), shown(again), shown(eve)) == ("11", "8192", "8192")


def test_tokens_expire(users):
    with Server(*SIM, "--auth-file", users, "--token-lifetime", "1s") as server:
        options, _ = login(server, "ada", "correct horse")
        assert read(server.flight(), "SELECT 1 AS a", options)[0].num_rows == 1
        time.sleep(1.2)
        with pytest.raises(UNAUTHENTICATED, match="log in again"):
            read(server.flight(), "SELECT 1 AS a", options)
        options, _ = login(server, "ada", "correct horse")
        assert read(server.flight(), "SELECT 1 AS a", options)[0].num_rows == 1


def test_an_address_that_guesses_has_to_wait(users):
    with Server(*SIM, "--auth-file", users) as server:
        for _ in range(10):
            with pytest.raises(UNAUTHENTICATED):
                login(server, "ada", "guess")
        with pytest.raises((flight.FlightError, pa.ArrowException), match="too many failed logins"):
            login(server, "ada", "correct horse")
        assert read(server.flight(), "SELECT 1 AS a", bearer(STATIC))[0].num_rows == 1, "tokens are not affected"
        assert server.metric("vcz_logins_total") == 11
        log = "\n".join(server.log)
        assert "a login was refused" in log and "guess" not in log and "correct horse" not in log


def test_a_flood_of_wrong_passwords_keeps_no_other_address_out(users):
    """As streams of one connection, so that limits on connections do not help."""
    with Server(*SIM, "--auth-file", users) as server, Relay(server.address, "127.0.0.2") as other:
        login(other, "ada", "correct horse")
        attacker, errors, begun = server.flight(), [], threading.Barrier(301)

        def guess(number):
            begun.wait()
            try:
                attacker.authenticate_basic_token("ada", f"guess {number}")
                errors.append("let in")
            except Exception as error:
                errors.append(str(error))

        threads = [threading.Thread(target=guess, args=(number,)) for number in range(300)]
        for thread in threads:
            thread.start()
        begun.wait()
        waits = []
        while any(thread.is_alive() for thread in threads) or len(waits) < 3:
            started = time.monotonic()
            login(other, "ada", "correct horse")
            waits.append(time.monotonic() - started)
        checked = sum("is wrong" in error for error in errors)
        refused = sum("too many" in error for error in errors)
        print(f"300 guesses: {checked} checked; a login from another address took at most {max(waits):.2f} s of {len(waits)}")
        # Two are checked at the same time.
        assert checked <= 11 and checked + refused == 300, errors[:5]
        assert max(waits) < 1, waits


def test_a_server_without_users_takes_no_logins(server):
    with pytest.raises(UNAUTHENTICATED, match="no users"):
        server.flight().authenticate_basic_token("ada", "x")
