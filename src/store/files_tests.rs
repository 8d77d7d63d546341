//! Reads that need not wait, and reads that must.

use std::time::{Duration, Instant};

use futures::executor::block_on;

use super::*;

#[test]
fn ranges_and_limits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.0");
    std::fs::write(&path, b"0123456789").unwrap();
    let get = |range, limit| block_on(get_file(path.clone(), range, limit));
    assert_eq!(get(None, 10).unwrap().unwrap(), "0123456789");
    let range = GetRange::Bounded(2..5);
    assert_eq!(get(Some(range), 3).unwrap().unwrap(), "234");
    assert_eq!(get(Some(GetRange::Suffix(2)), 10).unwrap().unwrap(), "89");
    assert!(get(None, 9).is_err(), "over the limit");
    let absent = folder.path().join("0.1");
    assert_eq!(block_on(get_file(absent, None, 10)).unwrap(), None);
    let below = path.join("0");
    assert_eq!(block_on(get_file(below, None, 10)).unwrap(), None);
    let of_folder = get_file(folder.path().to_owned(), None, 10);
    assert!(block_on(of_folder).is_err(), "a folder");
}

#[test]
fn errors_are_those_of_the_second_try() {
    let attempts = std::sync::Mutex::new(Vec::new());
    let attempts: &'static _ = Box::leak(Box::new(attempts));
    let result: Result<(), ReadError> = block_on(without_blocking(|wait| {
        attempts.lock().unwrap().push(wait);
        Err(match wait {
            Wait::Never => io::Error::from(ErrorKind::WouldBlock),
            Wait::Allowed => io::Error::other("the disk is broken"),
        })?
    }));
    let Err(ReadError::Io(error)) = result else {
        panic!()
    };
    assert_eq!(error.to_string(), "the disk is broken");
    assert_eq!(*attempts.lock().unwrap(), [Wait::Never, Wait::Allowed]);
}

#[cfg(target_os = "linux")]
#[test]
fn long_files_are_not_read_on_the_current_thread() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0.0");
    std::fs::write(&path, vec![7; BLOCKING_BYTES as usize]).unwrap();
    let (file, len) = open_regular(&path, Wait::Allowed).unwrap().unwrap();
    let error = read_file(&file, 0, len, Wait::Never).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let read = block_on(get_file(path, None, len)).unwrap().unwrap();
    assert_eq!(read.len() as u64, len);
}

/// A slow file system must not stop other tasks of the same thread, and reads of several files must overlap.
#[cfg(target_os = "linux")]
#[test]
fn slow_files_do_not_block_the_runtime() {
    const FILES: u32 = 16;
    let folder = tempfile::tempdir().unwrap();
    let slow = folder.path().join("slow");
    std::fs::create_dir(&slow).unwrap();
    for file in 0..FILES {
        std::fs::write(slow.join(file.to_string()), file.to_string()).unwrap();
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(async {
        let started = Instant::now();
        let reads = (0..FILES).map(|file| get_file(slow.join(file.to_string()), None, 10));
        let mut reads = std::pin::pin!(futures::future::join_all(reads));
        let mut ticks = 0;
        let read = loop {
            tokio::select! {
                read = &mut reads => break read,
                () = tokio::time::sleep(Duration::from_millis(2)) => ticks += 1,
            }
        };
        let time = started.elapsed();
        for (file, read) in read.into_iter().enumerate() {
            assert_eq!(read.unwrap().unwrap(), file.to_string());
        }
        assert!(
            time < slow::DELAY * FILES / 2,
            "one after the other: {time:?}"
        );
        assert!(ticks > 0, "the runtime did nothing else");
    });
}
