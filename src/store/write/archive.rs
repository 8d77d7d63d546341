//! [`ArchiveTarget`]: a store in a zip archive, whose files are stored without compression, as chunks have their own.
//!
//! It is written to a temporary file: beside the archive, which is then renamed; or, for an object store, to a scratch file that is
//! uploaded at the end. There a mark beside the archive keeps other statements from writing it.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStoreExt, PutMode, WriteMultipart};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::blocking::blocking_work;
use super::folder::{check_target, put_in_place, remove_temporary, shown, temporary_beside};
use super::mark::Mark;
use super::place::Place;
use super::temporaries;
use super::write_error::{exists, failed};
use crate::error::{Result, VczError};

/// What follows the archive's name in that of its mark.
const MARK: &str = ".vcz-writing";
/// Bytes of a part of an upload.
const PART: usize = 16 << 20;
/// Parts of an upload that are sent at once.
const CONCURRENT_PARTS: usize = 4;

/// A store that is written to an archive.
#[derive(Debug)]
pub struct ArchiveTarget {
    place: Place,
    local: Option<PathBuf>,
    temporary: PathBuf,
    overwrite: bool,
    /// That of an object store; `None` for a local archive, and once it is removed.
    mark: Mutex<Option<Mark>>,
    /// `None` once the archive is complete.
    zip: Arc<Mutex<Option<ZipWriter<BufWriter<File>>>>>,
}

impl ArchiveTarget {
    /// A new archive: at `local`, or at the place in its object store by way of the file `scratch`.
    ///
    /// # Errors
    /// If it exists and `overwrite` is not set, or the temporary file cannot be made.
    pub async fn create(
        place: Place,
        local: Option<PathBuf>,
        overwrite: bool,
        scratch: Option<PathBuf>,
    ) -> Result<Self> {
        let location = place.location.clone();
        if let Some(path) = &local {
            check_target(&location, path, overwrite)?;
        }
        if local.is_none() && !overwrite {
            check_absent(&place).await?;
        }
        let temporary = match &local {
            Some(path) => temporary_beside(path).map_err(|error| failed(&location, "", error))?,
            None => scratch.ok_or_else(|| {
                failed(
                    &location,
                    "",
                    "no temporary file can be made for the archive",
                )
            })?,
        };
        let path = temporary.clone();
        let made = blocking_work(move || {
            if let Some(folder) = path.parent() {
                fs::create_dir_all(folder).map_err(|error| failed(&location, "", error))?;
            }
            File::create(&path).map_err(|error| failed(&location, &shown(&path), error))
        });
        let zip = ZipWriter::new(BufWriter::new(made.await?));
        temporaries::note(&temporary);
        let mark = match &local {
            Some(_) => None,
            None => {
                let path = Path::from(format!("{}{MARK}", place.path));
                let shown = format!("{}{MARK}", place.location);
                let objects = Arc::clone(&place.objects);
                Some(Mark::make(objects, path, &place.location, &shown).await?)
            }
        };
        Ok(Self {
            mark: Mutex::new(mark),
            place,
            local,
            temporary,
            overwrite,
            zip: Arc::new(Mutex::new(Some(zip))),
        })
    }

    /// Writes the file `key`.
    ///
    /// # Errors
    /// Of the file system.
    pub fn put(&self, key: &str, bytes: &[u8]) -> Result<()> {
        let written = match self.zip.lock().as_mut() {
            Some(zip) => add(zip, key, bytes),
            None => Err(io::Error::other("the archive is complete")),
        };
        written.map_err(|error| failed(&self.place.location, key, error))
    }

    /// Writes the documents and the archive's directory, and gives the archive its name.
    ///
    /// # Errors
    /// Of the file system or object store; or if something has got the name meanwhile.
    pub async fn publish(self: &Arc<Self>, documents: Vec<(String, String)>) -> Result<()> {
        let archive = Arc::clone(self);
        blocking_work(move || archive.complete(&documents)).await?;
        if self.local.is_none() {
            let uploaded = self.upload_as_marked().await;
            self.abort().await;
            return uploaded;
        }
        let archive = Arc::clone(self);
        blocking_work(move || archive.name()).await
    }

    fn complete(&self, documents: &[(String, String)]) -> Result<()> {
        for (key, text) in documents {
            self.put(key, text.as_bytes())?;
        }
        let Some(zip) = self.zip.lock().take() else {
            return Ok(());
        };
        let finished = zip.finish().map_err(io::Error::from);
        let flushed = finished.and_then(|mut file| file.flush());
        flushed.map_err(|error| failed(&self.place.location, "", error))
    }

    fn name(&self) -> Result<()> {
        let (location, Some(path)) = (&self.place.location, &self.local) else {
            return Ok(());
        };
        match put_in_place(&self.temporary, path, self.overwrite) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(exists(&format!("'{location}'")));
            }
            named => named.map_err(|error| failed(location, "", error))?,
        }
        remove_temporary(&self.temporary);
        Ok(())
    }

    /// Removes the mark.
    pub async fn abort(&self) {
        let mark = self.mark.lock().take();
        if let Some(mark) = mark {
            remove_mark(mark, self.place.location.clone()).await;
        }
    }

    /// Uploads the archive if the mark is still the statement's own.
    async fn upload_as_marked(&self) -> Result<()> {
        let location = &self.place.location;
        let mark = self.mark.lock().clone();
        let is_ours = match mark {
            Some(mark) => mark.is_ours().await,
            None => Ok(false),
        };
        if !is_ours.map_err(|error| failed(location, MARK, error))? {
            return Err(VczError::Invalid(format!(
                "another statement writes to '{location}' at the same time; let it end, or write to another name"
            )));
        }
        if !self.overwrite {
            check_absent(&self.place).await?;
            if self.upload_at_once().await? {
                return Ok(());
            }
        }
        self.upload().await
    }

    /// Uploads a short archive in one request, which fails if something has got its name meanwhile. Returns whether that is done.
    async fn upload_at_once(&self) -> Result<bool> {
        let location = &self.place.location;
        let path = self.temporary.clone();
        let read = blocking_work(move || {
            let is_short = fs::metadata(&path).is_ok_and(|file| file.len() <= PART as u64);
            Ok(is_short.then(|| fs::read(&path)))
        });
        let Some(bytes) = read.await? else {
            return Ok(false);
        };
        let bytes = Bytes::from(bytes.map_err(|error| failed(location, "", error))?);
        let (objects, path) = (&self.place.objects, &self.place.path);
        let put = objects.put_opts(path, bytes.clone().into(), PutMode::Create.into());
        let error = match put.await {
            Ok(_) => return Ok(true),
            Err(object_store::Error::NotImplemented { .. }) => return Ok(false),
            Err(error) => error,
        };
        // It is our own if the answer was lost.
        let found = async { objects.get(path).await?.bytes().await };
        match error {
            _ if found.await.is_ok_and(|found| found == bytes) => Ok(true),
            object_store::Error::AlreadyExists { .. } => Err(exists(&format!("'{location}'"))),
            error => Err(failed(location, "", error)),
        }
    }

    async fn upload(&self) -> Result<()> {
        let location = &self.place.location;
        let objects = &self.place.objects;
        let wrong = |error: object_store::Error| failed(location, "", error);
        let upload = objects
            .put_multipart(&self.place.path)
            .await
            .map_err(wrong)?;
        let mut upload = WriteMultipart::new_with_chunk_size(upload, PART);
        let file = File::open(&self.temporary).map_err(|error| failed(location, "", error))?;
        let mut file = Some(file);
        loop {
            let Some(mut open) = file.take() else { break };
            let read = blocking_work(move || {
                let mut part = Vec::with_capacity(PART);
                let read = Read::by_ref(&mut open)
                    .take(PART as u64)
                    .read_to_end(&mut part);
                Ok(read.map(|_| (open, part)))
            });
            match read.await? {
                Ok((_, part)) if part.is_empty() => break,
                Ok((open, part)) => {
                    if let Err(error) = upload.wait_for_capacity(CONCURRENT_PARTS).await {
                        let _ = upload.abort().await;
                        return Err(wrong(error));
                    }
                    upload.put(part.into());
                    file = Some(open);
                }
                Err(error) => {
                    // The error of reading is the one to tell.
                    let _ = upload.abort().await;
                    return Err(failed(location, "", error));
                }
            }
        }
        upload.finish().await.map(drop).map_err(wrong)
    }
}

/// Returns an error if something has the archive's name.
async fn check_absent(place: &Place) -> Result<()> {
    match place.objects.head(&place.path).await {
        Ok(_) => Err(exists(&format!("'{}'", place.location))),
        Err(object_store::Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(failed(&place.location, "", error)),
    }
}

async fn remove_mark(mark: Mark, location: String) {
    let failure = match mark.is_surely_ours().await {
        true => mark.remove().await,
        false => None,
    };
    if let Some(error) = failure {
        log::warn!("archive '{location}': cannot remove its mark '{location}{MARK}': {error}");
    }
}

impl Drop for ArchiveTarget {
    fn drop(&mut self) {
        if let (Some(mark), Ok(runtime)) = (self.mark.get_mut().take(), Handle::try_current()) {
            // A statement that was cancelled.
            runtime.spawn(remove_mark(mark, self.place.location.clone()));
        }
        remove_temporary(&self.temporary);
    }
}

fn add(zip: &mut ZipWriter<BufWriter<File>>, key: &str, bytes: &[u8]) -> io::Result<()> {
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .large_file(bytes.len() as u64 >= u64::from(u32::MAX));
    zip.start_file(key, options)?;
    zip.write_all(bytes)
}
