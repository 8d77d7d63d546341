"""Programs whose results are compared, which read VCF: plink2 and vcftools. run.sh installs them where it can."""

import os
import shutil
import subprocess

import numpy as np
import pytest


def program(name):
    """The path of a program; skips the test where there is none."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"NOT RUN: there is no {name}")
    return path


def run(name, *arguments, folder):
    """Runs a program in a folder, where its results are files; what it prints."""
    environment = dict(os.environ)
    # Libraries of unpacked packages.
    if folders := os.environ.get("CLIENTS_LIBRARIES"):
        environment["LD_LIBRARY_PATH"] = folders
    command = [program(name), *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def table(path):
    """The columns of a table with a header."""
    lines = [line.split() for line in path.read_text().splitlines()]
    header = [name.lstrip("#") for name in lines[0]]
    return {name: np.array(column) for name, column in zip(header, zip(*lines[1:]), strict=True)}


def write_vcf(store, path, rows=slice(None), haploid=True):
    """Writes rows of a store as a phased VCF whose variants are named by their rows, and samples by their numbers.

    Contigs are numbers, so that none is a sex chromosome. Where `haploid` is False, haploid calls are missing.
    """
    contigs = list(dict.fromkeys(store.contig))
    lines = ["##fileformat=VCFv4.2", '##FORMAT=<ID=GT,Number=1,Type=String,Description="Genotype">']
    lines += [f"##contig=<ID={i + 1}>" for i in range(len(contigs))]
    samples = [f"s{i}" for i in range(store.genotypes.shape[1])]
    lines.append("\t".join(["#CHROM", "POS", "ID", "REF", "ALT", "QUAL", "FILTER", "INFO", "FORMAT", *samples]))
    for row in np.arange(len(store.position))[rows]:
        ref, *alts = store.alleles[row]
        alts = ",".join(allele for allele in alts if allele) or "."
        fields = [contigs.index(store.contig[row]) + 1, store.position[row], row, ref, alts, ".", ".", ".", "GT"]
        lines.append("\t".join([*map(str, fields), *(call(codes, haploid) for codes in store.genotypes[row].tolist())]))
    path.write_text("\n".join(lines) + "\n")


def call(codes, haploid):
    copies = [str(code) if code >= 0 else "." for code in codes if code != -2]
    return "|".join(copies) if haploid or len(copies) == len(codes) else ".|."
