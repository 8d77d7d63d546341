//! Hands the wanted chunks of an array to the GPU's queue, and waits for what becomes of them.
//!
//! Under [`gpu`](super::gpu), which says which chunks and when. What a device refuses is given back as the host's.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::buffer::Buffer;
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};

use crate::error::VczError;
use crate::gpu::{Encoded, GpuEngine, Outcome, Ticket, Work};
use crate::scan::dataset::Dataset;
use crate::scan::read::dense::chunk_index;
use crate::scan::read::metrics::ScanMetrics;
use crate::store::{ArrayMeta, ChunkPlace, LocalFile, OpenChunk};

/// Requests in flight for one variant chunk.
const CONCURRENT_PARTS: usize = 8;
/// The most variant chunks of a group, and encoded bytes of them: a task for each chunk would take longer to be passed between threads
/// than to run.
const GROUP_CHUNKS: usize = 16;
const GROUP_BYTES: usize = 4 << 20;
/// Chunks that are staged together, at most, and encoded bytes of them: the queue's lock is taken twice for all of them, and a batch
/// does not wait for long until they are there.
const STAGED_CHUNKS: usize = 16;
const STAGED_BYTES: usize = 4 << 20;

/// A file that is read in less than this, and this for each KiB, is taken to be in the page cache.
const CACHED_FILE: Duration = Duration::from_micros(20);
const CACHED_KIB: Duration = Duration::from_nanos(500);

/// One chunk of a variant chunk that is wanted.
#[derive(Debug, Clone)]
pub struct Wish {
    /// Its index along the axes after variants.
    pub trailing: Vec<u64>,
    /// Whether it is counted.
    pub count: bool,
    /// Whether elements of it are wanted.
    pub elements: bool,
}

/// One chunk as it came back.
pub struct Arrived {
    /// Its index along the axes after variants.
    pub trailing: Vec<u64>,
    /// Its counts, if it was to be counted.
    pub counts: Option<Piece>,
    /// Its elements, if they were wanted.
    pub elements: Option<Piece>,
}

/// What a chunk gave.
pub enum Piece {
    /// The device's results.
    Results(Buffer),
    /// It is absent: all its elements are the fill value.
    Absent,
    /// It is the host's to decode.
    Encoded(Bytes),
    /// It is the host's to decode, once it has been read again.
    Refused,
}

/// What is wanted of an array's chunks.
#[derive(Debug)]
pub struct Request {
    /// Where they come from.
    pub dataset: Arc<Dataset>,
    /// The array.
    pub array: Arc<ArrayMeta>,
    /// The chunks of a variant chunk that are wanted.
    pub wishes: Vec<Wish>,
    /// What is counted.
    pub counts: Option<Arc<Work>>,
    /// What elements are wanted.
    pub elements: Option<Arc<Work>>,
    /// Whether all stored rows are wanted, padding included, or those that exist.
    pub padded: bool,
    /// Whether uncompressed chunks in local files are left to the device to read.
    pub reads_files: bool,
}

/// The parts of a variant chunk.
pub(super) type Parts = Vec<Arrived>;

/// A chunk before it is handed over.
enum Fetched {
    /// It is not there.
    Absent,
    /// It is ready to be read.
    Open(OpenChunk),
    /// The device reads it.
    File(LocalFile),
}

/// Reads open files until one is there at once, as from the page cache: those after it are read to where they are staged, in a batch
/// that others are in, and nobody is to wait in there for a disk.
fn read_what_is_slow(fetched: &mut [Fetched], at_once: impl Fn(usize) -> Duration) {
    for fetched in fetched {
        if let Fetched::Open(chunk @ OpenChunk::File(..)) = fetched {
            let started = Instant::now();
            // What cannot be read is found again when it is staged.
            if chunk.load().is_err() || started.elapsed() < at_once(chunk.len()) {
                return;
            }
        }
    }
}

/// The time that [`read_what_is_slow`] gives so many bytes.
fn cached(len: usize) -> Duration {
    // Open files are short.
    CACHED_FILE + CACHED_KIB * (len / 1024) as u32
}

/// Tickets of one chunk; `None` where it is absent or nothing of this kind is wanted.
pub(super) struct Submitted {
    trailing: Vec<u64>,
    present: bool,
    counts: Option<Result<Ticket, String>>,
    elements: Option<Result<Ticket, String>>,
}

impl Submitted {
    fn ticket(&mut self, is_count: bool) -> &mut Option<Result<Ticket, String>> {
        match is_count {
            true => &mut self.counts,
            false => &mut self.elements,
        }
    }

    /// As for a chunk that is absent.
    fn nothing(wish: &Wish) -> Self {
        Self {
            trailing: wish.trailing.clone(),
            present: false,
            counts: None,
            elements: None,
        }
    }
}

impl Request {
    /// Encoded bytes of a chunk, about.
    fn chunk_bytes(&self) -> usize {
        let work = self.counts.as_ref().or(self.elements.as_ref());
        let bytes = work.map_or(0, |work| {
            let guess = work.planner.estimate().encoded_bytes();
            work.sizes.encoded(guess)
        });
        bytes.max(1)
    }

    /// How many variant chunks are handed over together.
    pub(super) fn group(&self) -> usize {
        let bytes = self.chunk_bytes().saturating_mul(self.wishes.len().max(1));
        (GROUP_BYTES / bytes).clamp(1, GROUP_CHUNKS)
    }

    /// Waits for what becomes of chunks that were handed over.
    pub(super) async fn wait_for_group(
        &self,
        chunks: Vec<u64>,
        submitted: Vec<Submitted>,
        metrics: &ScanMetrics,
    ) -> Result<VecDeque<(u64, Parts)>, VczError> {
        let mut submitted = submitted.into_iter();
        let mut all = VecDeque::with_capacity(chunks.len());
        for chunk in chunks {
            let parts = submitted.by_ref().take(self.wishes.len()).collect();
            all.push_back((chunk, self.wait_for_all(chunk, parts, metrics).await?));
        }
        Ok(all)
    }

    /// Hands all wanted parts of these chunks to the device.
    pub(super) async fn submit_group(
        &self,
        engine: &GpuEngine,
        chunks: &[u64],
        metrics: &ScanMetrics,
    ) -> Result<Vec<Submitted>, VczError> {
        let parts = chunks.len() * self.wishes.len();
        let is_local = self.dataset.store().is_local();
        let some = match is_local {
            true => (STAGED_BYTES / self.chunk_bytes()).clamp(1, STAGED_CHUNKS),
            false => 1,
        };
        let ranges = (0..parts)
            .step_by(some)
            .map(|start| start..(start + some).min(parts));
        if some > 1 {
            // One after the other: short local files are not worth another thread.
            let mut submitted = Vec::with_capacity(parts);
            for range in ranges {
                submitted.extend(self.submit(engine, chunks, range, metrics).await?);
            }
            return Ok(submitted);
        }
        let submitted: Vec<_> = stream::iter(ranges)
            .map(|range| self.submit(engine, chunks, range, metrics))
            .buffered(CONCURRENT_PARTS)
            .try_collect()
            .await?;
        Ok(submitted.into_iter().flatten().collect())
    }

    /// Hands some of the wanted parts of these chunks, which are counted through, to the device; they are staged together.
    async fn submit(
        &self,
        engine: &GpuEngine,
        chunks: &[u64],
        parts: Range<usize>,
        metrics: &ScanMetrics,
    ) -> Result<Vec<Submitted>, VczError> {
        let queue = engine.queue();
        let wishes = self.wishes.len();
        let index = |part: usize| {
            let wish = &self.wishes[part % wishes];
            chunk_index(chunks[part / wishes], &wish.trailing)
        };
        let places = parts.clone().map(|part| self.place(&index(part)));
        let places = places.collect::<Result<Vec<_>, _>>()?;
        let is_staged = |place: &&ChunkPlace| matches!(place, ChunkPlace::Store);
        let _room = match places.iter().filter(is_staged).count() {
            0 => None,
            n => {
                // Until the chunks are staged, their files are open, or their encoded bytes are in memory.
                let bytes = self.chunk_bytes().saturating_mul(n);
                queue.room_to_stage(n, bytes).await
            }
        };
        let mut fetched = Vec::with_capacity(parts.len());
        for (part, place) in parts.clone().zip(places) {
            fetched.push(self.fetch(&index(part), place).await?);
        }
        read_what_is_slow(&mut fetched, cached);
        let mut submitted = Vec::with_capacity(parts.len());
        // What is staged, and of which chunk that is.
        let mut staged = Vec::with_capacity(parts.len());
        for (at, (part, fetched)) in parts.zip(&fetched).enumerate() {
            let wish = &self.wishes[part % wishes];
            let mut chunk = Submitted::nothing(wish);
            let len = match fetched {
                Fetched::Absent => 0,
                Fetched::Open(chunk) => chunk.len(),
                Fetched::File(file) => file.len(),
            };
            chunk.present = !matches!(fetched, Fetched::Absent);
            metrics.bytes_fetched.add(len);
            metrics.chunks_read.add(usize::from(chunk.present));
            let rows = self.rows(chunks[part / wishes]);
            let sample_chunk = wish.trailing.first().map_or(0, |at| *at as usize);
            for (wanted, work, is_count) in [
                (wish.count, &self.counts, true),
                (wish.elements, &self.elements, false),
            ] {
                let Some(work) = work.as_ref().filter(|_| wanted) else {
                    continue;
                };
                match fetched {
                    Fetched::File(file) => {
                        let file = file.clone();
                        let ticket = queue.submit_file(work, sample_chunk, rows, file).await;
                        *chunk.ticket(is_count) = Some(ticket);
                    }
                    Fetched::Open(chunk) => {
                        let encoded = Encoded {
                            work,
                            sample_chunk,
                            rows,
                            chunk,
                        };
                        staged.push((at, is_count, encoded));
                    }
                    Fetched::Absent => {}
                }
            }
            submitted.push(chunk);
        }
        let encoded: Vec<_> = staged.iter().map(|(_, _, encoded)| *encoded).collect();
        let tickets = queue.submit_all(&encoded).await;
        for ((at, is_count, _), ticket) in staged.iter().zip(tickets) {
            *submitted[*at].ticket(*is_count) = Some(ticket);
        }
        Ok(submitted)
    }

    async fn wait_for_all(
        &self,
        chunk: u64,
        submitted: Vec<Submitted>,
        metrics: &ScanMetrics,
    ) -> Result<Parts, VczError> {
        let mut arrived = Vec::with_capacity(submitted.len());
        for (part, wish) in submitted.into_iter().zip(&self.wishes) {
            let Submitted {
                trailing,
                present,
                counts,
                elements,
            } = part;
            let counts = self
                .wait(chunk, present, &trailing, counts, metrics)
                .await?;
            let elements = self
                .wait(chunk, present, &trailing, elements, metrics)
                .await?;
            arrived.push(Arrived {
                counts: counts.filter(|_| wish.count),
                elements: elements.filter(|_| wish.elements),
                trailing,
            });
        }
        Ok(arrived)
    }

    /// Stored rows of a variant chunk that are wanted.
    fn rows(&self, chunk: u64) -> usize {
        let rows = if self.padded {
            self.array.chunks[0]
        } else {
            let origin = vec![0; self.array.rank() - 1];
            self.array.chunk_extent(&chunk_index(chunk, &origin))[0]
        };
        rows as usize
    }

    /// Where the device may read a chunk itself; `Store` where it may not.
    fn place(&self, index: &[u64]) -> Result<ChunkPlace, VczError> {
        let work = self.counts.as_ref().or(self.elements.as_ref());
        if !self.reads_files || work.is_none_or(|work| !work.planner.is_plain()) {
            return Ok(ChunkPlace::Store);
        }
        self.dataset.store().chunk_place(&self.array, index)
    }

    /// One chunk, to be staged, unless the device may read it where it is.
    async fn fetch(&self, index: &[u64], place: ChunkPlace) -> Result<Fetched, VczError> {
        match place {
            ChunkPlace::File(file) => return Ok(Fetched::File(file)),
            ChunkPlace::Absent => return Ok(Fetched::Absent),
            ChunkPlace::Store => {}
        }
        let opened = self.dataset.store().open_chunk(&self.array, index).await?;
        Ok(opened.map_or(Fetched::Absent, Fetched::Open))
    }

    /// Waits for a chunk's results.
    async fn wait(
        &self,
        chunk: u64,
        present: bool,
        trailing: &[u64],
        ticket: Option<Result<Ticket, String>>,
        metrics: &ScanMetrics,
    ) -> Result<Option<Piece>, VczError> {
        if !present {
            return Ok(Some(Piece::Absent));
        }
        let reason = match ticket {
            None => return Ok(None),
            Some(Err(reason)) => reason,
            Some(Ok(ticket)) => match ticket.await {
                Ok(Outcome::Done(done)) => {
                    metrics.copy_time.add_duration(done.times.copy);
                    metrics.gpu_decode_time.add_duration(done.times.decode);
                    metrics.gpu_count_time.add_duration(done.times.count);
                    metrics.chunks_on_gpu.add(1);
                    metrics.bytes_direct.add(done.read);
                    return Ok(Some(Piece::Results(done.bytes)));
                }
                Ok(Outcome::Host(reason)) => reason,
                Err(_) => "the GPU engine dropped the chunk".to_string(),
            },
        };
        let index = chunk_index(chunk, trailing);
        log::debug!(
            "{}: array '{}', chunk {}: decoded on the host: {reason}",
            self.dataset.store().location(),
            self.array.name,
            self.array.chunk_label(&index)
        );
        Ok(Some(Piece::Refused))
    }

    /// A chunk that a device has refused, for the host.
    pub(super) async fn read_again(&self, chunk: u64, trailing: &[u64]) -> Result<Piece, VczError> {
        let index = chunk_index(chunk, trailing);
        let encoded = self.dataset.store().chunk(&self.array, &index).await?;
        Ok(encoded.map_or(Piece::Absent, Piece::Encoded))
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn files_are_read_until_one_is_there_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("0.0");
        std::fs::write(&path, b"encoded").unwrap();
        let file = |len| Fetched::Open(OpenChunk::File(File::open(&path).unwrap(), len));
        let read = |fetched: &mut [Fetched], at_once| -> Vec<bool> {
            read_what_is_slow(fetched, |_| at_once);
            let is_read = |one: &Fetched| matches!(one, Fetched::Open(OpenChunk::Bytes(_)));
            fetched.iter().map(is_read).collect()
        };
        let mut all = [file(7), Fetched::Absent, file(7)];
        assert_eq!(read(&mut all, Duration::ZERO), [true, false, true]);
        let mut first = [Fetched::Absent, file(7), file(7)];
        assert_eq!(read(&mut first, Duration::MAX), [false, true, false]);
        // One that is shorter than it was: whoever stages it finds out.
        let mut none = [file(8), file(7)];
        assert_eq!(read(&mut none, Duration::ZERO), [false, false]);
    }
}
