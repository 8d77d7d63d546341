//! Tests of the formats; that dadi, moments and numpy read the same is tested in `tests/python`.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Builder, ListBuilder};

use super::*;

fn grid() -> Spectrum {
    Spectrum::new(Cells::Whole((0..12).collect()), vec![3, 4]).unwrap()
}

fn written(
    format: SpectrumFormat,
    spectrum: Spectrum,
    options: &FileOptions,
    file: &str,
) -> String {
    String::from_utf8(format.bytes(spectrum, options, file).unwrap()).unwrap()
}

fn refused(
    format: SpectrumFormat,
    spectrum: Spectrum,
    options: &FileOptions,
    file: &str,
) -> String {
    let error = format.bytes(spectrum, options, file).unwrap_err();
    error.strip_backtrace()
}

fn named() -> FileOptions {
    FileOptions {
        populations: vec!["a".to_string(), "b".to_string()],
        ..FileOptions::default()
    }
}

fn folded(copies: Option<usize>) -> FileOptions {
    FileOptions {
        folded: true,
        copies,
        ..FileOptions::default()
    }
}

#[test]
fn fs() {
    let expected = "3 4 unfolded \"a\" \"b\"\n0 1 2 3 4 5 6 7 8 9 10 11\n1 0 0 0 0 0 0 0 0 0 0 1\n";
    assert_eq!(
        written(SpectrumFormat::Fs, grid(), &named(), "x.fs"),
        expected
    );
    let halves = Spectrum::new(Cells::Real(vec![6.0, 6.5, 3.0]), vec![3]).unwrap();
    assert_eq!(
        written(SpectrumFormat::Fs, halves.clone(), &folded(Some(4)), "x.fs"),
        "5 folded\n6 6.5 3 0 0\n1 0 0 1 1\n"
    );
    assert_eq!(
        written(SpectrumFormat::Fs, halves.clone(), &folded(Some(5)), "x.fs"),
        "6 folded\n6 6.5 3 0 0 0\n1 0 0 1 1 1\n"
    );
    let missing = refused(SpectrumFormat::Fs, halves.clone(), &folded(None), "x.fs");
    assert!(missing.contains("of 4 or of 5 copies"), "{missing}");
    let wrong = refused(SpectrumFormat::Fs, halves, &folded(Some(9)), "x.fs");
    assert!(wrong.contains("has 5 bins, or 10"), "{wrong}");
    let unfolded = refused(SpectrumFormat::Fs, grid(), &folded(None), "x.fs");
    assert!(unfolded.contains("not folded"), "{unfolded}");
    let mut names = named();
    names.populations.pop();
    let one = refused(SpectrumFormat::Fs, grid(), &names, "x.fs");
    assert!(one.contains("of 2 population(s), and 1 names"), "{one}");
    names.populations = vec!["a\"".to_string(), "b".to_string()];
    assert!(refused(SpectrumFormat::Fs, grid(), &names, "x.fs").contains("population name"));
}

#[test]
fn obs() {
    let plain = FileOptions::default();
    assert_eq!(
        written(SpectrumFormat::Obs, grid(), &plain, "x_jointDAFpop1_0.obs"),
        "1 observation\n\td0_0\td0_1\td0_2\nd1_0\t0\t4\t8\nd1_1\t1\t5\t9\nd1_2\t2\t6\t10\nd1_3\t3\t7\t11\n"
    );
    assert_eq!(
        written(SpectrumFormat::Obs, grid(), &plain, "x_DSFS.obs"),
        "1 observations. No. of demes and sample sizes are on next line\n2\t2 3\n0\t1\t2\t3\t4\t5\t6\t7\t8\t9\t10\t11\n"
    );
    let one = Spectrum::new(Cells::Whole(vec![9, 1, 2]), vec![3]).unwrap();
    let monomorphic = FileOptions {
        monomorphic: Some(1000.0),
        ..FileOptions::default()
    };
    assert_eq!(
        written(SpectrumFormat::Obs, one.clone(), &monomorphic, "x.obs"),
        "1 observation\nd0_0\td0_1\td0_2\n1000\t1\t2\n"
    );
    let derived = refused(
        SpectrumFormat::Obs,
        one.clone(),
        &folded(Some(4)),
        "x_DAFpop0.obs",
    );
    assert!(derived.contains("MAF instead of DAF"), "{derived}");
    let minor = refused(SpectrumFormat::Obs, one, &plain, "x_MSFS.obs");
    assert!(minor.contains("_DSFS instead of _MSFS"), "{minor}");
    let three = Spectrum::new(Cells::Whole(vec![0; 8]), vec![2, 2, 2]).unwrap();
    assert!(refused(SpectrumFormat::Obs, three, &plain, "x.obs").contains("_DSFS.obs"));
}

#[test]
fn sfs_and_npy() {
    let mut options = FileOptions::default();
    let one = Spectrum::new(Cells::Real(vec![1.5, 2.0]), vec![2]).unwrap();
    assert_eq!(
        written(SpectrumFormat::Sfs, one.clone(), &options, "x.sfs"),
        "#SHAPE=<2>\n1.500000 2.000000\n"
    );
    options.header = false;
    assert_eq!(
        written(SpectrumFormat::Sfs, one, &options, "x.sfs"),
        "1.500000 2.000000\n"
    );
    let bytes = SpectrumFormat::Npy
        .bytes(grid(), &options, "x.npy")
        .unwrap();
    assert_eq!((bytes.len(), bytes.len() % 64), (128 + 96, 32));
    let header = String::from_utf8_lossy(&bytes[10..128]);
    assert_eq!(
        header.trim_end(),
        "{'descr': '<i8', 'fortran_order': False, 'shape': (3, 4,), }"
    );
    assert_eq!(&bytes[bytes.len() - 8..], 11i64.to_le_bytes());
}

#[test]
fn rows_of_columns() {
    let mut lists = ListBuilder::new(Int64Builder::new());
    lists.append_value([Some(7)]);
    lists.append_value([Some(1), Some(2), Some(3)]);
    lists.append_null();
    lists.append_value([Some(1), None]);
    let column: ArrayRef = Arc::new(lists.finish());
    let expected = Spectrum::new(Cells::Whole(vec![1, 2, 3]), vec![3]).unwrap();
    assert_eq!(Spectrum::of_row(&column, 1).unwrap(), expected);
    let refused = |row| {
        Spectrum::of_row(&column, row)
            .unwrap_err()
            .strip_backtrace()
    };
    assert!(refused(0).contains("at least two cells"), "{}", refused(0));
    assert!(
        refused(2).contains("the spectrum is NULL"),
        "{}",
        refused(2)
    );
    assert!(
        refused(3).contains("a cell of the spectrum is NULL"),
        "{}",
        refused(3)
    );
    assert!(Spectrum::is_spectrum(column.data_type()));
    let numbers: ArrayRef = Arc::new(arrow::array::Int64Array::from(vec![1]));
    assert!(!Spectrum::is_spectrum(numbers.data_type()));
    assert!(Spectrum::of_row(&numbers, 0).is_err());
}

#[test]
fn options() {
    let map = |key: &str, value: &str| [(key.to_string(), value.to_string())].into();
    let parsed = FileOptions::from_map(&map("spectrum.populations", "a, b")).unwrap();
    assert_eq!(parsed, named());
    for (key, value, expected) in [
        ("format.folded", "true", "'spectrum.folded'"),
        ("spectrum.foldd", "true", "'spectrum.populations'"),
        ("spectrum.folded", "yes", "true or false"),
        ("spectrum.copies", "0", "at least 1"),
        ("spectrum.monomorphic", "-1", "a number of sites"),
    ] {
        let error = FileOptions::from_map(&map(key, value)).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert!(FileOptions::from_map(&map("aws.region", "x")).is_ok());
    assert!(SpectrumFormat::named("vcf").is_err());
    for format in SpectrumFormat::ALL {
        assert_eq!(SpectrumFormat::named(format.name()).unwrap(), format);
    }
}
