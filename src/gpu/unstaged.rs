//! [`Unstaged`]: limits the encoded chunks that are in memory, or open, before they are staged.

use tokio::sync::{Semaphore, SemaphorePermit};

/// A pool has this many units of [`UNIT`] bytes. An open file takes one unit, which bounds the number of open files.
const UNITS: u32 = 256;
/// The same for chunks of large frames.
const UNITS_OF_LARGE_FRAMES: u32 = 128;
const UNIT: usize = 1 << 20;

/// Limits encoded chunks before they are staged, for all queries together.
///
/// Who holds room may wait for a slab, because its chunks are in memory. Devices free slabs, and they wait for no permit; but a
/// large-frame batch occupies a device for long. Chunks of large frames therefore have a pool of their own: ordinary chunks, for
/// which there may be a slab, do not wait for them.
#[derive(Debug)]
pub struct Unstaged {
    ordinary: Semaphore,
    large_frames: Semaphore,
}

/// Chunks that are read or opened together.
#[derive(Debug, Clone, Copy)]
pub struct ToRead {
    /// The number of files that are open at the same time.
    pub files: usize,
    /// About how many encoded bytes they have together.
    pub bytes: usize,
    /// Whether they have large frames.
    pub large_frames: bool,
}

impl ToRead {
    fn units(self, most: u32) -> u32 {
        let units = (self.bytes / UNIT).max(self.files);
        u32::try_from(units).unwrap_or(most).clamp(1, most)
    }
}

impl Default for Unstaged {
    fn default() -> Self {
        Self {
            ordinary: Semaphore::new(UNITS as usize),
            large_frames: Semaphore::new(UNITS_OF_LARGE_FRAMES as usize),
        }
    }
}

impl Unstaged {
    /// Waits until `chunks` may be read and there is room for them. The first permit is of `reading` and is held while they are read;
    /// the second one is that of the room, and is held until they are staged. Neither is held while waiting for the other: a reader
    /// of a slow store would otherwise keep room from all others.
    ///
    /// `None` if a semaphore is closed, which never happens.
    pub async fn acquire<'a>(
        &'a self,
        reading: &'a Semaphore,
        chunks: ToRead,
    ) -> Option<(SemaphorePermit<'a>, SemaphorePermit<'a>)> {
        let (pool, units) = match chunks.large_frames {
            true => (&self.large_frames, chunks.units(UNITS_OF_LARGE_FRAMES)),
            false => (&self.ordinary, chunks.units(UNITS)),
        };
        loop {
            let read = reading.acquire().await.ok()?;
            if let Ok(room) = pool.try_acquire_many(units) {
                return Some((read, room));
            }
            drop(read);
            let room = pool.acquire_many(units).await.ok()?;
            if let Ok(read) = reading.try_acquire() {
                return Some((read, room));
            }
            // All reads of this reader have begun, so another one ends before the next round.
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    const ALL: ToRead = ToRead {
        files: usize::MAX,
        bytes: usize::MAX,
        large_frames: false,
    };
    const ONE: ToRead = ToRead {
        files: 1,
        bytes: 1,
        large_frames: false,
    };

    /// A reader whose reads are slow holds no room for those that have not begun.
    #[test]
    fn room_is_not_held_while_waiting_to_read() {
        let unstaged = Unstaged::default();
        let (slow, other) = (Semaphore::new(1), Semaphore::new(1));
        let one_read = slow.try_acquire().unwrap();
        let mut waiting = Box::pin(unstaged.acquire(&slow, ALL));
        assert!((&mut waiting).now_or_never().is_none());
        let of_other = unstaged.acquire(&other, ALL).now_or_never();
        assert!(of_other.is_some(), "the other reader waits for room");
        drop(of_other);
        drop(one_read);
        assert!(waiting.now_or_never().flatten().is_some(), "not woken");
    }

    /// A reader that waits for room lets others with the same limit of reads go on.
    #[test]
    fn reads_are_not_held_while_waiting_for_room() {
        let unstaged = Unstaged::default();
        let (reading, other) = (Semaphore::new(1), Semaphore::new(1));
        let (_, room) = unstaged
            .acquire(&other, ALL)
            .now_or_never()
            .unwrap()
            .unwrap();
        let mut waiting = Box::pin(unstaged.acquire(&reading, ONE));
        assert!((&mut waiting).now_or_never().is_none());
        let read = reading.try_acquire().expect("the read is held");
        // With room but no read, the room goes to the next one.
        drop(room);
        assert!((&mut waiting).now_or_never().is_none());
        assert_eq!(unstaged.ordinary.available_permits(), UNITS as usize);
        drop(read);
        let (_read, _room) = waiting.now_or_never().flatten().expect("not woken");
        assert_eq!(reading.available_permits(), 0);
        assert_eq!(unstaged.ordinary.available_permits(), UNITS as usize - 1);
    }

    /// Chunks that wait for a large-frame batch keep no ordinary chunk from being staged.
    #[test]
    fn ordinary_chunks_do_not_wait_for_large_frames() {
        let unstaged = Unstaged::default();
        let reading = Semaphore::new(3);
        let large = ToRead {
            large_frames: true,
            ..ALL
        };
        let _held = unstaged
            .acquire(&reading, large)
            .now_or_never()
            .unwrap()
            .unwrap();
        assert!(unstaged.acquire(&reading, large).now_or_never().is_none());
        assert!(unstaged.acquire(&reading, ONE).now_or_never().is_some());
    }

    /// One read at a time and room for one: all get both.
    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn all_are_served() {
        let unstaged = std::sync::Arc::new(Unstaged::default());
        let readers: Vec<_> = (0..4)
            .map(|_| std::sync::Arc::new(Semaphore::new(1)))
            .collect();
        let mut tasks = Vec::new();
        for at in 0..400 {
            let (unstaged, reading) = (unstaged.clone(), readers[at % 4].clone());
            tasks.push(tokio::spawn(async move {
                let chunks = if at % 3 == 0 { ONE } else { ALL };
                let (read, room) = unstaged.acquire(&reading, chunks).await.unwrap();
                tokio::task::yield_now().await;
                drop(read);
                tokio::task::yield_now().await;
                drop(room);
            }));
        }
        let all = futures::future::try_join_all(tasks);
        let ended = tokio::time::timeout(std::time::Duration::from_secs(60), all).await;
        assert_eq!(ended.expect("they wait for ever").unwrap().len(), 400);
    }
}
