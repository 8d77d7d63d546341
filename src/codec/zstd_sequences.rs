//! Reads the sequences of a compressed zstd block without decoding the block: which lengths it copies from which offsets.
//!
//! Used by [`zstd_tail`](super::zstd_tail) on the few short blocks at the end of a frame. The sequences of a block depend on the
//! blocks before it in two ways, which [`History`] holds: the tables that they may use again, and the last three offsets. Both
//! may be unknown, because the blocks before were not read; what depends on something unknown is unknown in turn. The
//! format is RFC 8878, section 3.1.1.3. No rule of it is relaxed: what libzstd might refuse is `None` here.

use super::zstd_fse::{Bits, Description, State, Table};

/// The most sequences of a block that is [short](Parts::is_short).
const MAX_SEQUENCES: usize = 1024;

/// What a kind of code in sequences is written with.
struct Coding {
    /// The code that is in use where a block says nothing else.
    predefined: Table,
    max_symbol: u8,
    max_log: u32,
}

static LITERAL_LENGTHS: Coding = Coding {
    predefined: Table::new(
        &[
            4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1,
            1, 1, 1, -1, -1, -1, -1,
        ],
        6,
    ),
    max_symbol: 35,
    max_log: 9,
};
static OFFSETS: Coding = Coding {
    predefined: Table::new(
        &[
            1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1,
            -1,
        ],
        5,
    ),
    max_symbol: 31,
    max_log: 8,
};
static MATCH_LENGTHS: Coding = Coding {
    predefined: Table::new(
        &[
            1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
            1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
        ],
        6,
    ),
    max_symbol: 52,
    max_log: 9,
};

/// The length that a code of literals starts at, and the number of bits that are added to it.
fn literal_length(code: u8) -> (u32, u32) {
    const LONG: [(u32, u32); 20] = [
        (16, 1),
        (18, 1),
        (20, 1),
        (22, 1),
        (24, 2),
        (28, 2),
        (32, 3),
        (40, 3),
        (48, 4),
        (64, 6),
        (128, 7),
        (256, 8),
        (512, 9),
        (1024, 10),
        (2048, 11),
        (4096, 12),
        (8192, 13),
        (16384, 14),
        (32768, 15),
        (65536, 16),
    ];
    let long = usize::from(code).checked_sub(16).and_then(|i| LONG.get(i));
    long.copied().unwrap_or((code.into(), 0))
}

/// The length that a code of a match starts at, and the number of bits that are added to it.
fn match_length(code: u8) -> (u32, u32) {
    const LONG: [(u32, u32); 21] = [
        (35, 1),
        (37, 1),
        (39, 1),
        (41, 1),
        (43, 2),
        (47, 2),
        (51, 3),
        (59, 3),
        (67, 4),
        (83, 4),
        (99, 5),
        (131, 7),
        (259, 8),
        (515, 9),
        (1027, 10),
        (2051, 11),
        (4099, 12),
        (8195, 13),
        (16387, 14),
        (32771, 15),
        (65539, 16),
    ];
    let long = usize::from(code).checked_sub(32).and_then(|i| LONG.get(i));
    long.copied().unwrap_or((u32::from(code) + 3, 0))
}

/// A table that is in use. Most are not needed, so they are not made before they are.
#[derive(Clone, Copy)]
enum Used {
    Predefined(&'static Table),
    /// Every code is this one.
    One(u8),
    Described(Description),
}

impl Used {
    fn table<'a>(&self, room: &'a mut Option<Table>) -> &'a Table {
        match self {
            Used::Predefined(table) => table,
            Used::One(symbol) => room.insert(Table::of_one(*symbol)),
            Used::Described(description) => room.insert(description.table()),
        }
    }
}

/// What a block's sequences depend on.
#[derive(Clone)]
pub(super) struct History {
    tables: [Option<Used>; 3],
    /// The last three offsets, the latest first; `None` where one is not known.
    offsets: [Option<u32>; 3],
}

impl History {
    /// Before the first block of a frame without a dictionary.
    pub(super) const START: History = History {
        tables: [None; 3],
        offsets: [Some(1), Some(4), Some(8)],
    };
}

/// Copies of what comes `offset` bytes before, after some literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) literals: u32,
    pub(super) length: u32,
    /// `None` where it depends on what is not known.
    pub(super) offset: Option<u32>,
}

/// The literals of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Literals<'a> {
    Raw(&'a [u8]),
    /// One byte, so many times.
    Rle(u8, u32),
    /// Compressed: only how many there are is known.
    Compressed(u32),
}

impl Literals<'_> {
    pub(super) fn len(&self) -> u32 {
        match self {
            // A block has at most 128 KiB.
            Literals::Raw(bytes) => bytes.len() as u32,
            Literals::Rle(_, len) | Literals::Compressed(len) => *len,
        }
    }

    /// Literal `i`, where it can be told.
    pub(super) fn get(&self, i: u32) -> Option<u8> {
        match self {
            Literals::Raw(bytes) => bytes.get(i as usize).copied(),
            Literals::Rle(byte, len) => (i < *len).then_some(*byte),
            Literals::Compressed(_) => None,
        }
    }
}

/// A compressed block, taken apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) literals: Literals<'a>,
    n_sequences: usize,
    /// From the modes of the tables on; nothing where there are no sequences.
    sequences: &'a [u8],
}

impl<'a> Parts<'a> {
    pub(super) fn of(block: &'a [u8]) -> Option<Parts<'a>> {
        let mut rest = block;
        let literals = take_literals(&mut rest)?;
        let n_sequences = match take(&mut rest, 1)? {
            n @ 0..128 => n,
            high @ 128..255 => (high - 128) << 8 | take(&mut rest, 1)?,
            _ => take(&mut rest, 2)? + 0x7f00,
        };
        if n_sequences == 0 && !rest.is_empty() {
            return None;
        }
        Some(Parts {
            literals,
            n_sequences: n_sequences as usize,
            sequences: rest,
        })
    }

    /// Whether reading the sequences is a matter of a few microseconds.
    pub(super) fn is_short(&self) -> bool {
        self.n_sequences <= MAX_SEQUENCES
    }

    /// Reads the tables only, as if the sequences had been read; the offsets are not known then.
    pub(super) fn skip(&self, history: &mut History) -> Option<()> {
        if self.n_sequences > 0 {
            self.tables(history)?;
            history.offsets = [None; 3];
        }
        Some(())
    }

    /// Reads the tables that the sequences of a block use, which come to be the ones in use; what is left is the bit stream.
    fn tables(&self, history: &mut History) -> Option<&'a [u8]> {
        let mut rest = self.sequences;
        let modes = take(&mut rest, 1)?;
        if modes & 3 != 0 {
            return None;
        }
        let codings = [&LITERAL_LENGTHS, &OFFSETS, &MATCH_LENGTHS];
        for (i, (coding, used)) in codings.into_iter().zip(&mut history.tables).enumerate() {
            match modes >> (6 - 2 * i) & 3 {
                0 => *used = Some(Used::Predefined(&coding.predefined)),
                1 => {
                    let symbol = take(&mut rest, 1)? as u8;
                    if symbol > coding.max_symbol {
                        return None;
                    }
                    *used = Some(Used::One(symbol));
                }
                2 => {
                    let read = Description::read(&mut rest, coding.max_symbol, coding.max_log)?;
                    *used = Some(Used::Described(read));
                }
                _ => {}
            }
        }
        Some(rest)
    }

    /// Reads all sequences, in order, and brings `history` up to the end of the block.
    pub(super) fn sequences(
        &self,
        history: &mut History,
        mut each: impl FnMut(Sequence) -> Option<()>,
    ) -> Option<()> {
        if self.n_sequences == 0 {
            return Some(());
        }
        let stream = self.tables(history)?;
        let History { tables, offsets } = history;
        let [Some(literals), Some(of), Some(matches)] = tables else {
            return None;
        };
        let (mut room_l, mut room_o, mut room_m) = (None, None, None);
        let literals = literals.table(&mut room_l);
        let of = of.table(&mut room_o);
        let matches = matches.table(&mut room_m);
        let mut bits = Bits::new(stream)?;
        let mut literals_state = literals.start(&mut bits)?;
        let mut of_state = of.start(&mut bits)?;
        let mut match_state = matches.start(&mut bits)?;
        let mut left = self.literals.len();
        for i in 0..self.n_sequences {
            if i > 0 {
                literals_state = literals.next(literals_state, &mut bits)?;
                match_state = matches.next(match_state, &mut bits)?;
                of_state = of.next(of_state, &mut bits)?;
            }
            let value = offset_value(of_state, &mut bits)?;
            let (base, more) = match_length(match_state.symbol);
            let length = base + bits.take(more)?;
            let (base, more) = literal_length(literals_state.symbol);
            let n_literals = base + bits.take(more)?;
            left = left.checked_sub(n_literals)?;
            each(Sequence {
                literals: n_literals,
                length,
                offset: next_offset(value, n_literals, offsets)?,
            })?;
        }
        bits.is_empty().then_some(())
    }
}

fn offset_value(state: State, bits: &mut Bits<'_>) -> Option<u32> {
    let code = u32::from(state.symbol);
    1u32.checked_shl(code)?.checked_add(bits.take(code)?)
}

/// The offset that a value stands for, which becomes the latest one. The inner `None`: not known.
fn next_offset(value: u32, literals: u32, last: &mut [Option<u32>; 3]) -> Option<Option<u32>> {
    let [first, second, third] = *last;
    // Without literals, the latest offset would only make the match before longer.
    let repeat = value.saturating_add(u32::from(literals == 0));
    *last = match (value, repeat) {
        (4.., _) => [Some(value - 3), first, second],
        (_, 1) => return Some(first),
        (_, 2) => [second, first, third],
        (_, 3) => [third, first, second],
        _ => {
            let offset = match first {
                Some(first) => Some(first.checked_sub(1).filter(|offset| *offset > 0)?),
                None => None,
            };
            [offset, first, second]
        }
    };
    Some(last[0])
}

fn take_literals<'a>(rest: &mut &'a [u8]) -> Option<Literals<'a>> {
    let first = *rest.first()?;
    let format = first >> 2 & 3;
    if first & 2 == 0 {
        let (header, shift) = match format {
            0 | 2 => (1, 3),
            1 => (2, 4),
            _ => (3, 4),
        };
        let len = take(rest, header)? >> shift;
        if first & 1 == 1 {
            return Some(Literals::Rle(take(rest, 1)? as u8, len));
        }
        let (bytes, tail) = rest.split_at_checked(len as usize)?;
        *rest = tail;
        return Some(Literals::Raw(bytes));
    }
    let (header, bits) = match format {
        0 | 1 => (3, 10),
        2 => (4, 14),
        _ => (5, 18),
    };
    let sizes = take_wide(rest, header)? >> 4;
    let mask = (1u64 << bits) - 1;
    let (len, encoded) = (sizes & mask, sizes >> bits & mask);
    *rest = rest.get(encoded as usize..)?;
    Some(Literals::Compressed(len as u32))
}

/// Takes a little-endian number of up to three bytes off the front of `rest`.
fn take(rest: &mut &[u8], len: usize) -> Option<u32> {
    take_wide(rest, len).map(|value| value as u32)
}

fn take_wide(rest: &mut &[u8], len: usize) -> Option<u64> {
    let (bytes, tail) = rest.split_at_checked(len)?;
    *rest = tail;
    Some(
        bytes
            .iter()
            .rev()
            .fold(0, |value, byte| value << 8 | u64::from(*byte)),
    )
}
