//! Counts the memory that each thread has allocated and not freed. Below all layers: `flight` bounds the memory of planning by it.
//!
//! Invariants: counting neither allocates nor fails. Memory that another thread frees stays counted here, so the count is exact only
//! for work that is done by one thread.

use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;

thread_local! {
    static ALLOCATED: Cell<isize> = const { Cell::new(0) };
}

/// An allocator that counts what `A` allocates, for `#[global_allocator]`.
#[derive(Debug)]
pub struct Counted<A>(pub A);

/// Bytes that this thread has allocated and not freed; 0 in a program without [`Counted`].
pub fn of_this_thread() -> isize {
    // A thread that ends has no count any more.
    ALLOCATED.try_with(Cell::get).unwrap_or(0)
}

fn add(bytes: isize) {
    let _ = ALLOCATED.try_with(|allocated| allocated.set(allocated.get().wrapping_add(bytes)));
}

// SAFETY: every call is passed on to `A` unchanged, and its result returned unchanged. Layouts are smaller than `isize::MAX`.
unsafe impl<A: GlobalAlloc> GlobalAlloc for Counted<A> {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { self.0.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        add(-layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { self.0.dealloc(memory, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        add(layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { self.0.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size.cast_signed() - layout.size().cast_signed());
        // SAFETY: as the caller promises.
        unsafe { self.0.realloc(memory, layout, size) }
    }
}

#[cfg(test)]
mod tests {
    use std::alloc::System;

    use super::*;

    #[test]
    fn what_is_freed_is_no_longer_counted() {
        let (counted, before) = (Counted(System), of_this_thread());
        let layout = Layout::from_size_align(1000, 8).unwrap();
        let larger = Layout::from_size_align(5000, 8).unwrap();
        // SAFETY: the memory is allocated, grown and freed with its own layouts, and not used.
        unsafe {
            let memory = counted.alloc(layout);
            assert_eq!(of_this_thread() - before, 1000);
            let memory = counted.realloc(memory, layout, 5000);
            assert_eq!(of_this_thread() - before, 5000);
            counted.dealloc(memory, larger);
        }
        assert_eq!(of_this_thread(), before);
    }
}
