"""Spectra and windows through both clients equal the golden values, which numpy and scikit-allel computed."""

import json

import pytest

from protocol import read
from server import FIXTURES, SIM, Server, rows

EXPECTED = json.loads((FIXTURES / "expected.json").read_text())["sim.vcz"]


def through_adbc(server):
    connection = server.adbc()
    return lambda sql: rows(connection, sql)


def through_pyarrow(server):
    client = server.flight()

    def run(sql):
        table, announced = read(client, sql)
        assert table.schema.equals(announced, check_metadata=True)
        return table.to_pylist()

    return run


CLIENTS = [through_adbc, through_pyarrow]


@pytest.mark.parametrize("client", CLIENTS)
def test_spectra_of_the_fixture(server, client):
    run = client(server)
    for population in ["first", "second"]:
        wanted = EXPECTED[population]
        m = wanted["project_m"]
        (found,) = run(f"""
            SELECT sfs(call_genotype, '{population}') AS sfs, sfs_folded(call_genotype, '{population}') AS sfs_folded,
                   project_sfs(call_genotype, '{population}', {m}) AS project_sfs,
                   diversity(call_genotype, '{population}') AS diversity, theta_w(call_genotype, '{population}') AS theta_w,
                   segregating_sites(call_genotype, '{population}') AS segregating_sites,
                   tajimas_d(call_genotype, '{population}') AS tajimas_d
            FROM sim""")
        for name, values in found.items():
            if isinstance(values, int) or name in ("sfs", "sfs_folded"):
                assert values == wanted[name], name
            else:
                assert values == pytest.approx(wanted[name], rel=1e-9), name
    (found,) = run("""
        SELECT divergence(call_genotype, 'first', 'second') AS divergence, fst_hudson(call_genotype, 'first', 'second') AS fst,
               joint_sfs(call_genotype, 'first', 'second') AS joint FROM sim""")
    both = EXPECTED["first_second"]
    assert found["divergence"] == pytest.approx(both["divergence"], rel=1e-9)
    assert found["fst"] == pytest.approx(both["fst_hudson"], rel=1e-9)
    cells = [(i, j, n) for i, row in enumerate(found["joint"]) for j, n in enumerate(row) if n]
    assert len(cells) == both["joint_sfs_cells"]
    assert sum(n for *_, n in cells) == both["joint_sfs_total"]
    assert sum(n * (31 * i + 17 * j + 1) for i, j, n in cells) == both["joint_sfs_checksum"]


@pytest.mark.parametrize("client", CLIENTS)
def test_spectra_as_rows(server, client):
    """`spectrum_rows` through the server: the bins of a spectrum, the cells of a joint one."""
    run = client(server)
    found = run("""SELECT r['bin'] AS bin, r['sites'] AS sites
                   FROM (SELECT unnest(spectrum_rows(sfs(call_genotype, 'first'))) AS r FROM sim) ORDER BY 1""")
    assert [row["bin"] for row in found] == list(range(EXPECTED["first"]["copies"] + 1))
    assert [row["sites"] for row in found] == EXPECTED["first"]["sfs"]
    found = run("""SELECT r['i'] AS i, r['j'] AS j, r['sites'] AS sites
                   FROM (SELECT unnest(spectrum_rows(joint_sfs(call_genotype, 'first', 'second'))) AS r FROM sim) WHERE r['sites'] > 0""")
    both = EXPECTED["first_second"]
    assert len(found) == both["joint_sfs_cells"]
    assert sum(row["sites"] * (31 * row["i"] + 17 * row["j"] + 1) for row in found) == both["joint_sfs_checksum"]
    by_contig = run("""SELECT variant_contig, r['bin'] AS bin, r['sites'] AS sites
                       FROM (SELECT variant_contig, unnest(spectrum_rows(project_sfs(call_genotype, 'first', 10))) AS r FROM sim GROUP BY 1)""")
    assert len(by_contig) == 22 and all(isinstance(row["sites"], float) for row in by_contig)


@pytest.mark.parametrize("client", CLIENTS)
def test_windows_of_the_fixture(server, client):
    windows = EXPECTED["windows"]["w50k"]
    found = client(server)("""
        SELECT g.contig, g.window_start, g.window_stop, g.accessible_bases, coalesce(w.variants, 0) AS variants,
               coalesce(w.diversity_first, 0) AS diversity_first, coalesce(w.theta_w_first, 0) AS theta_w_first
        FROM genome_windows('sim', 50000) g
        LEFT JOIN (SELECT variant_contig, genome_bin(variant_position, 50000) AS window_start, count(*) AS variants,
                          diversity(call_genotype, 'first') AS diversity_first, theta_w(call_genotype, 'first') AS theta_w_first
                   FROM sim GROUP BY 1, 2) w
        ON w.variant_contig = g.contig AND w.window_start = g.window_start
        ORDER BY g.contig, g.window_start""")
    wanted = sorted(windows["rows"], key=lambda row: (row["contig"], row["window_start"]))
    assert len(found) == len(wanted)
    for row, expected in zip(found, wanted):
        for name, number in row.items():
            assert number == pytest.approx(expected[name], rel=1e-9) if isinstance(number, float) else number == expected[name]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_registered_mask(server, client):
    run = client(server)
    (found,) = run("""SELECT count(*) AS inside FROM sim WHERE is_accessible(variant_contig, variant_position, 'accessible')""")
    (by_join,) = run("""SELECT count(*) AS inside FROM sim WHERE EXISTS (SELECT 1 FROM accessible m
                        WHERE variant_contig = m.contig AND variant_position > m."start" AND variant_position <= m."end")""")
    assert 0 < found["inside"] == by_join["inside"]
    assert sum(row["accessible_bases"] for row in run("SELECT * FROM genome_windows('sim', 50000, 50000, 'accessible')")) > 0


def test_gambx(shared_data):
    allel = json.loads((shared_data / "gambX.scikit-allel.json").read_text())
    with Server(shared_data / "gambX.vcz.zip", "--populations", shared_data / "gambX.populations.tsv") as server:
        for client in CLIENTS:
            run = client(server)
            (whole,) = run("""
                SELECT count(*) AS n_variants, segregating_sites(call_genotype) AS seg, diversity(call_genotype) AS sum_mpd,
                       tajimas_d(call_genotype) AS tajima_d, sfs(call_genotype) AS sfs, sfs_folded(call_genotype) AS sfs_folded,
                       fst_hudson(call_genotype, 'first', 'second') AS hudson FROM "gambX" """)
            for name, found in whole.items():
                assert found == pytest.approx(allel[name], rel=1e-9), name
            windows = run("""
                SELECT genome_bin(variant_position, 100000) AS start, count(*) AS n,
                       diversity(call_genotype) / 100000 AS pi, theta_w(call_genotype) / 100000 AS tw,
                       tajimas_d(call_genotype) AS td, fst_hudson(call_genotype, 'first', 'second') AS fst,
                       divergence(call_genotype, 'first', 'second') / 100000 AS dxy
                FROM "gambX" WHERE variant_position > 8000000 GROUP BY 1 ORDER BY 1""")
            assert len(windows) == len(allel["win100k"]) == 40
            for window, wanted in zip(windows, allel["win100k"]):
                for name, found in window.items():
                    assert found == pytest.approx(wanted[name], rel=1e-9), (window["start"], name)
        server.idle()


def test_two_clients_at_once(server):
    one, two = server.adbc(), server.adbc()
    with one.cursor() as first, two.cursor() as second:
        first.execute("SELECT variant_position FROM sim ORDER BY variant_contig, variant_position")
        second.execute("SELECT variant_position FROM sim ORDER BY variant_contig, variant_position")
        a, b = first.fetch_record_batch(), second.fetch_record_batch()
        positions = ([], [])
        for left, right in zip(a, b, strict=True):
            positions[0].extend(left.column(0).to_pylist())
            positions[1].extend(right.column(0).to_pylist())
    assert positions[0] == positions[1] and len(positions[0]) == EXPECTED["variants"]
