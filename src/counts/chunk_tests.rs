//! Single chunks: absent ones, padded copies, and requests that do not fit.

use super::*;

/// A small store with a given fill value and padded ploidy.
fn small_array(fill: i64, dtype: &str, ploidy: usize) -> ArrayMeta {
    let zarray = json!({
        "zarr_format": 2, "shape": [3, 5, ploidy], "chunks": [4, 2, 2], "dtype": dtype,
        "fill_value": fill, "order": "C", "filters": null, "compressor": null,
    });
    ArrayMeta::from_v2("call_genotype", &zarray, None).unwrap()
}

#[test]
fn absent_chunks_are_counted_from_the_fill_value() {
    for ploidy in [1, 2] {
        for (fill, dtype) in [
            (0, "|i1"),
            (-1, "|i1"),
            (-2, "<i2"),
            (1, "<i4"),
            (2, "|i1"),
            (3, "<i2"),
        ] {
            let request = CountRequest {
                alleles: vec![
                    Arc::new(SampleSet::all(5)),
                    Arc::new(SampleSet::new(vec![4])),
                ],
                genotypes: vec![Arc::new(SampleSet::new(vec![0, 4]))],
                zygosity: vec![Arc::new(SampleSet::new(vec![0, 2, 4]))],
                planes: vec![Arc::new(SampleSet::new(vec![1, 2, 4]))],
                n_alleles: 3,
                n_samples: 5,
                ploidy,
            };
            let array = small_array(fill, dtype, ploidy);
            let chain = CodecChain::try_new(&array).unwrap();
            let counter = Counter::try_new(request.clone(), 2).unwrap();
            assert_eq!(counter.wanted_sample_chunks(), [0, 1, 2]);
            let (mut out, mut scratch) = (ChunkCounts::default(), CountScratch::default());
            out.reset(&request, 3).unwrap();
            let found = (0..3).try_for_each(|chunk| {
                counter.add_chunk(&chain, &array, None, chunk, 3, &mut out, &mut scratch)
            });
            let expected = reference::count(&request, &vec![fill; 3 * 5 * ploidy], 3);
            match expected {
                Ok(expected) => assert_eq!((found, &out), (Ok(()), &expected), "{fill} {ploidy}"),
                Err(error) => assert!(
                    found.unwrap_err().to_string().ends_with(&error.to_string()),
                    "{fill}"
                ),
            }
        }
    }
}

#[test]
fn calls_that_are_stored_with_more_copies_are_counted_without_them() {
    // Ploidy 1 in chunks of 2 copies: every second code is padding.
    let array = small_array(0, "|i1", 1);
    let chain = CodecChain::try_new(&array).unwrap();
    let request = CountRequest {
        alleles: vec![Arc::new(SampleSet::all(5))],
        genotypes: vec![Arc::new(SampleSet::all(5))],
        zygosity: vec![Arc::new(SampleSet::all(5))],
        planes: vec![],
        n_alleles: 2,
        n_samples: 5,
        ploidy: 1,
    };
    let counter = Counter::try_new(request, 2).unwrap();
    let (mut out, mut scratch) = (ChunkCounts::default(), CountScratch::default());
    out.reset(counter.request(), 3).unwrap();
    let row = [1u8, 99, 0xff, 99];
    counter
        .add_chunk(
            &chain,
            &array,
            Some(&row.repeat(4)),
            1,
            3,
            &mut out,
            &mut scratch,
        )
        .unwrap();
    assert_eq!(out.alleles.get(0).unwrap(), [0, 1, 0, 1, 0, 1]);
    assert_eq!(out.genotypes.get(0).unwrap(), [0, 0, 0, 1, 1].repeat(3));
}

#[test]
fn sizes_that_do_not_fit_are_rejected() {
    let request = CountRequest {
        alleles: vec![Arc::new(SampleSet::all(5))],
        genotypes: vec![],
        zygosity: vec![],
        planes: vec![],
        n_alleles: 2,
        n_samples: 5,
        ploidy: 2,
    };
    assert!(Counter::try_new(request.clone(), 0).is_err());
    let counter = Counter::try_new(request.clone(), 2).unwrap();
    let (mut out, mut scratch) = (ChunkCounts::default(), CountScratch::default());
    let array = small_array(0, "|i1", 2);
    let chain = CodecChain::try_new(&array).unwrap();
    let mut add = |array: &ArrayMeta, chunk, rows, out: &mut ChunkCounts| {
        counter.add_chunk(&chain, array, None, chunk, rows, out, &mut scratch)
    };
    let mut error = |array: &ArrayMeta, chunk, rows, out: &mut ChunkCounts| {
        add(array, chunk, rows, out).unwrap_err().to_string()
    };
    assert!(error(&array, 0, 3, &mut out).contains("reset"));
    out.reset(&request, 9).unwrap();
    assert!(error(&array, 3, 3, &mut out).contains("sample chunk 3"));
    assert!(error(&array, 0, 5, &mut out).contains("5 rows"));
    assert!(error(&small_array(0, "|u1", 2), 0, 3, &mut out).contains("uint8"));
    assert!(error(&small_array(0, "|i1", 1), 0, 3, &mut out).contains("found shape"));
    assert!(
        counter
            .add_dense(
                &[0; 9],
                ElementType::Int8,
                0..1,
                &mut out,
                &mut CountScratch::default()
            )
            .unwrap_err()
            .to_string()
            .contains("found 9 bytes")
    );
}
