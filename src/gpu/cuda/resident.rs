//! [`ResidentPool`]: memory of one device for rows of bit-planes that stay there. [`ChunkOnDevice`]: the rows of a chunk.
//!
//! Workers take memory for a batch while a query counts pairs; it comes back once all chunks of the batch have been dropped. A chunk is
//! dropped only after the kernels that read it have ended. The memory of the last query is kept for the next one, until others need it, since all calls
//! of the driver wait while memory is allocated or freed. Invariant: the pool holds no more than what is reserved or kept for it.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

use super::device::CudaDevice;
use super::memory::DeviceBuffer;
use crate::counts::ResidentRows;

/// The memory of a device.
#[derive(Debug)]
pub struct ResidentPool {
    device: Arc<CudaDevice>,
    pool: Mutex<Pool>,
}

#[derive(Debug, Default)]
struct Pool {
    free: Vec<DeviceBuffer>,
    /// Bytes of all memory, in use or not.
    held: usize,
    /// The most of it: what queries have reserved, or what is kept of the last one.
    most: usize,
    /// Queries that use it.
    users: usize,
    /// Whether the device was lost.
    is_lost: bool,
}

impl ResidentPool {
    /// No memory of `device` yet.
    pub fn new(device: &Arc<CudaDevice>) -> Arc<Self> {
        Arc::new(Self {
            device: Arc::clone(device),
            pool: Mutex::default(),
        })
    }

    /// Whether the device is one of these, as bits.
    pub fn is_among(&self, devices: u64) -> bool {
        devices >> (self.device.ordinal % 64) & 1 != 0
    }

    /// Lets the pool hold so many bytes more, for one more query.
    pub fn open(&self, bytes: usize) {
        let mut pool = self.pool.lock();
        let of_others = if pool.users > 0 { pool.most } else { 0 };
        pool.most = of_others.saturating_add(bytes);
        pool.users += 1;
    }

    /// Ends the use of so many bytes by a query, and frees unused memory beyond those of the other queries; `true` if there are none, so that
    /// so many bytes are kept. On a device that `is_lost` memory stays allocated, since freeing would wait for the device.
    pub fn close(&self, bytes: usize, is_lost: bool) -> bool {
        let mut pool = self.pool.lock();
        pool.is_lost |= is_lost;
        pool.users = pool.users.saturating_sub(1);
        let is_kept = pool.users == 0 && !pool.is_lost;
        pool.most = match (is_kept, pool.users) {
            (true, _) => bytes,
            (false, 0) => 0,
            (false, _) => pool.most.saturating_sub(bytes),
        };
        shrink(pool);
        is_kept
    }

    /// Frees the memory that is kept; nothing while a query uses it.
    pub fn release(&self) {
        let mut pool = self.pool.lock();
        if pool.users == 0 {
            pool.most = 0;
            shrink(pool);
        }
    }

    /// Memory of at least so many bytes; `None` if there is none left.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<ResidentMemory> {
        let memory = |buffer| {
            Some(ResidentMemory {
                pool: Arc::clone(self),
                buffer: Some(buffer),
            })
        };
        let mut pool = self.pool.lock();
        let fits = |(_, buffer): &(usize, &DeviceBuffer)| buffer.len() >= bytes;
        let fitting = pool.free.iter().enumerate().filter(fits);
        let smallest = fitting.min_by_key(|(_, buffer)| buffer.len());
        if let Some(at) = smallest.map(|(at, _)| at) {
            return memory(pool.free.swap_remove(at));
        }
        // Buffers are rounded up.
        let most = bytes.saturating_add(bytes / 8).saturating_add(1 << 20);
        let unused: usize = pool.free.iter().map(DeviceBuffer::len).sum();
        let in_use = pool.held.saturating_sub(unused);
        if in_use.saturating_add(most) > pool.most {
            return None;
        }
        let mut freed = vec![];
        while pool.held.saturating_add(most) > pool.most {
            // Smaller memory that nobody uses makes room.
            let Some(buffer) = pool.free.pop() else {
                break;
            };
            pool.held = pool.held.saturating_sub(buffer.len());
            freed.push(buffer);
        }
        pool.held = pool.held.saturating_add(most);
        let is_lost = pool.is_lost;
        // The driver is called without the lock.
        drop(pool);
        free(freed, is_lost);
        let mut buffer = DeviceBuffer::new(&self.device);
        let allocated = buffer.ensure("rows that stay on the device", bytes);
        let mut pool = self.pool.lock();
        pool.held = pool.held.saturating_sub(most).saturating_add(buffer.len());
        drop(pool);
        match allocated {
            Ok(_) => memory(buffer),
            Err(reason) => {
                log::debug!("no memory for rows that stay on the device: {reason}");
                None
            }
        }
    }

    fn give_back(&self, buffer: DeviceBuffer) {
        let mut pool = self.pool.lock();
        pool.free.push(buffer);
        shrink(pool);
    }
}

/// Frees unused memory beyond the most that the pool may hold. The driver is called without the lock.
fn shrink(mut pool: MutexGuard<'_, Pool>) {
    let mut freed = vec![];
    while pool.held > pool.most {
        let Some(buffer) = pool.free.pop() else {
            break;
        };
        pool.held = pool.held.saturating_sub(buffer.len());
        freed.push(buffer);
    }
    let is_lost = pool.is_lost;
    drop(pool);
    free(freed, is_lost);
}

/// Frees memory; on a device that is lost it is left allocated.
fn free(mut buffers: Vec<DeviceBuffer>, is_lost: bool) {
    if is_lost {
        buffers.iter_mut().for_each(DeviceBuffer::forget);
    }
}

/// Memory of a batch.
#[derive(Debug)]
pub struct ResidentMemory {
    pool: Arc<ResidentPool>,
    buffer: Option<DeviceBuffer>,
}

impl ResidentMemory {
    /// Its address.
    pub fn address(&self) -> u64 {
        self.buffer.as_ref().map_or(0, DeviceBuffer::address)
    }
}

impl Drop for ResidentMemory {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool.give_back(buffer);
        }
    }
}

/// The rows of a chunk that may have stayed on a device: for each set of samples a plane of each row, in the order of rows.
#[derive(Debug)]
pub struct ChunkOnDevice {
    memory: Arc<ResidentMemory>,
    /// Where they are in the memory.
    at: usize,
    rows: usize,
    /// For each set, the 64-bit words of a plane.
    widths: Vec<usize>,
}

impl ResidentRows for ChunkOnDevice {}

impl ChunkOnDevice {
    /// Rows at byte `at` of `memory`.
    pub fn new(memory: &Arc<ResidentMemory>, at: usize, rows: usize, widths: Vec<usize>) -> Self {
        Self {
            memory: Arc::clone(memory),
            at,
            rows,
            widths,
        }
    }

    /// Bytes of so many rows.
    pub fn bytes(rows: usize, widths: &[usize]) -> Option<usize> {
        let words = widths
            .iter()
            .try_fold(0usize, |sum, width| sum.checked_add(*width))?;
        words.checked_mul(rows)?.checked_mul(size_of::<u64>())
    }

    /// Bytes of all its rows.
    pub fn size(&self) -> usize {
        Self::bytes(self.rows, &self.widths).unwrap_or(usize::MAX)
    }

    /// The number of the device.
    pub fn device(&self) -> usize {
        self.memory.pool.device.ordinal
    }

    /// The address of the first row of a set, and the number of rows; `None` if its planes do not have `width` words.
    pub fn rows(&self, set: usize, width: usize) -> Option<(u64, usize)> {
        self.widths.get(set).filter(|of_set| **of_set == width)?;
        let before: usize = self.widths.iter().take(set).sum();
        let words = before * self.rows;
        let address = self.memory.address() + (self.at + words * size_of::<u64>()) as u64;
        Some((address, self.rows))
    }
}
