//! Splits a compressed zstd block into its parts, and reads its sequences (lengths and offsets of copies) without decoding it.
//!
//! [`decode`](super::decode) uses the parts, but reads sequences with its own code. The code here is used by
//! [`tail`](super::tail) on the few short blocks at the end of a frame. The sequences of a block depend on earlier blocks in two
//! ways, which [`History`] has: tables that are reused, and the last three offsets. Both may be unknown if earlier blocks were
//! skipped; values that depend on them are then unknown too. The format is RFC 8878, section 3.1.1.3. Blocks that libzstd
//! might reject are `None`.

use super::fse::{Bits, Cell, FseDescription, FseTable, SymbolCodes, codes};

/// Most sequences of a [short](Parts::is_short) block.
const MAX_SEQUENCES: usize = 1024;

/// The coding of literal lengths, offsets or match lengths.
pub(super) struct Coding {
    /// The predefined table.
    pub(super) predefined: FseTable,
    /// The values of the symbols.
    pub(super) codes: SymbolCodes,
    max_symbol: u8,
    max_log: u32,
}

/// Literal lengths, offsets and match lengths, in the order in which a block describes them.
pub(super) static CODINGS: [Coding; 3] = [
    Coding {
        predefined: FseTable::new(
            &[
                4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1,
                1, 1, 1, 1, -1, -1, -1, -1,
            ],
            6,
            &LITERAL_LENGTHS,
        ),
        codes: LITERAL_LENGTHS,
        max_symbol: 35,
        max_log: 9,
    },
    Coding {
        predefined: FseTable::new(
            &[
                1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1,
                -1, -1,
            ],
            5,
            &OFFSETS,
        ),
        codes: OFFSETS,
        max_symbol: 31,
        max_log: 8,
    },
    Coding {
        predefined: FseTable::new(
            &[
                1, 4, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
                1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1,
            ],
            6,
            &MATCH_LENGTHS,
        ),
        codes: MATCH_LENGTHS,
        max_symbol: 52,
        max_log: 9,
    },
];

const LITERAL_LENGTHS: SymbolCodes = {
    let more = [
        1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
    ];
    codes(0, 16, &more)
};
const MATCH_LENGTHS: SymbolCodes = {
    let more = [
        1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
    ];
    codes(3, 32, &more)
};
/// Values of offsets, see [`next_offset`].
const OFFSETS: SymbolCodes = {
    let mut more = [0u8; 32];
    let mut i = 0;
    while i < 32 {
        more[i] = i as u8;
        i += 1;
    }
    codes(1, 0, &more)
};

/// A table of a block. Most tables are not needed, so they are built on demand.
#[derive(Clone, Copy)]
pub(super) enum Used {
    Predefined(&'static FseTable),
    /// All symbols are this one.
    One(u8),
    Described(FseDescription),
}

impl Used {
    /// Builds this table, with the codes of `coding`, in `table`.
    #[inline(always)]
    pub(super) fn set(&self, coding: &Coding, table: &mut FseTable) {
        match self {
            Used::Predefined(predefined) => table.copy_from(predefined),
            // `new_tables` has checked the symbol.
            Used::One(symbol) => table.set_one(coding.codes[usize::from(*symbol)]),
            Used::Described(description) => description.set(table, &coding.codes),
        }
    }
}

/// The state from earlier blocks that a block's sequences depend on.
#[derive(Clone)]
pub(super) struct History<'a> {
    tables: [Option<Used>; 3],
    /// The last skipped block, whose tables replace these; read only if they are needed.
    skipped: Option<Parts<'a>>,
    /// The last three offsets, the latest first; `None` if unknown.
    offsets: [Option<u32>; 3],
}

impl History<'_> {
    /// Before the first block of a frame without a dictionary.
    pub(super) const START: Self = History {
        tables: [None; 3],
        skipped: None,
        offsets: [Some(1), Some(4), Some(8)],
    };

    fn replace(&mut self, new: [Option<Used>; 3]) {
        for (used, new) in self.tables.iter_mut().zip(new) {
            *used = new.or(*used);
        }
    }
}

/// Some literals, then a copy of `length` bytes from `offset` bytes before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sequence {
    pub(super) literals: u32,
    pub(super) length: u32,
    /// `None` if it depends on an unknown offset.
    pub(super) offset: Option<u32>,
}

/// The literals of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Literals<'a> {
    Raw(&'a [u8]),
    /// One byte and its number of repetitions.
    Rle(u8, u32),
    /// Huffman-coded; only their number is known without decoding.
    Compressed(Packed<'a>),
}

/// Compressed literals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Packed<'a> {
    /// Number of literals.
    pub(super) len: u32,
    /// The table, unless it is repeated, and the bit streams.
    pub(super) bytes: &'a [u8],
    /// Whether there are four streams rather than one.
    pub(super) four: bool,
    /// Whether the table of the previous literals is used.
    pub(super) repeat: bool,
}

impl Literals<'_> {
    pub(super) fn len(&self) -> u32 {
        match self {
            // A block has at most 128 KiB.
            Literals::Raw(bytes) => bytes.len() as u32,
            Literals::Rle(_, len) => *len,
            Literals::Compressed(packed) => packed.len,
        }
    }

    /// Literal `i`, if it is known without decoding.
    pub(super) fn get(&self, i: u32) -> Option<u8> {
        match self {
            Literals::Raw(bytes) => bytes.get(i as usize).copied(),
            Literals::Rle(byte, len) => (i < *len).then_some(*byte),
            Literals::Compressed(_) => None,
        }
    }
}

/// The parts of a compressed block.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parts<'a> {
    pub(super) literals: Literals<'a>,
    /// Offset of their encoded bytes in the block.
    pub(super) literals_at: usize,
    pub(super) n_sequences: usize,
    /// The sequences section from the table modes on; empty if there are no sequences.
    sequences: &'a [u8],
}

impl<'a> Parts<'a> {
    pub(super) fn of(block: &'a [u8]) -> Option<Parts<'a>> {
        let mut rest = block;
        let literals = take_literals(&mut rest)?;
        let encoded = match literals {
            Literals::Raw(bytes) => bytes.len(),
            Literals::Rle(..) => 1,
            Literals::Compressed(packed) => packed.bytes.len(),
        };
        let literals_at = block.len() - rest.len() - encoded;
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
            literals_at,
            n_sequences: n_sequences as usize,
            sequences: rest,
        })
    }

    /// Whether reading the sequences takes at most a few microseconds.
    pub(super) fn is_short(&self) -> bool {
        self.n_sequences <= MAX_SEQUENCES
    }

    /// Skips the sequences: the offsets become unknown.
    pub(super) fn skip(&self, history: &mut History<'a>) -> Option<()> {
        if self.n_sequences > 0 {
            if let Some(before) = history.skipped.replace(*self) {
                history.replace(before.new_tables()?.0);
            }
            history.offsets = [None; 3];
        }
        Some(())
    }

    /// Reads the block's tables into `history`. Returns the bit stream after them.
    fn tables(&self, history: &mut History<'a>) -> Option<&'a [u8]> {
        let (new, rest) = self.new_tables()?;
        if let Some(skipped) = history.skipped.take()
            && new.iter().any(Option::is_none)
        {
            history.replace(skipped.new_tables()?.0);
        }
        history.replace(new);
        Some(rest)
    }

    /// The block's new tables, in the order of [`CODINGS`], `None` for repeated ones; and the bit stream after them. There must be
    /// sequences.
    pub(super) fn new_tables(&self) -> Option<([Option<Used>; 3], &'a [u8])> {
        let mut rest = self.sequences;
        let modes = take(&mut rest, 1)?;
        if modes & 3 != 0 {
            return None;
        }
        let mut new = [None; 3];
        for (i, (new, coding)) in new.iter_mut().zip(&CODINGS).enumerate() {
            *new = match modes >> (6 - 2 * i) & 3 {
                0 => Some(Used::Predefined(&coding.predefined)),
                1 => Some(Used::One(
                    Some(take(&mut rest, 1)? as u8)
                        .filter(|symbol| *symbol <= coding.max_symbol)?,
                )),
                2 => {
                    let read = FseDescription::read(&mut rest, coding.max_symbol, coding.max_log)?;
                    Some(Used::Described(read))
                }
                _ => None,
            };
        }
        Some((new, rest))
    }

    /// Reads all sequences, in order, and updates `history` to the end of the block.
    pub(super) fn sequences(
        &self,
        history: &mut History<'a>,
        each: impl FnMut(Sequence) -> Option<()>,
    ) -> Option<()> {
        if self.n_sequences == 0 {
            return Some(());
        }
        let stream = self.tables(history)?;
        let new = || Box::new([const { FseTable::of_one(LITERAL_LENGTHS[0]) }; 3]);
        let mut buffers = BUFFERS.take().unwrap_or_else(new);
        let read = self.read(stream, history, &mut buffers, each);
        BUFFERS.set(Some(buffers));
        read
    }

    /// Reads the sequences of the bit stream `stream`, with tables that are built in `buffers`.
    fn read(
        &self,
        stream: &[u8],
        history: &mut History<'_>,
        buffers: &mut [FseTable; 3],
        mut each: impl FnMut(Sequence) -> Option<()>,
    ) -> Option<()> {
        let History {
            tables, offsets, ..
        } = history;
        let [Some(literals), Some(of), Some(matches)] = tables else {
            return None;
        };
        for ((used, coding), buffer) in [literals, of, matches]
            .into_iter()
            .zip(&CODINGS)
            .zip(buffers.iter_mut())
        {
            used.set(coding, buffer);
        }
        let [literals, of, matches] = &*buffers;
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
            let offset = value(of_state, &mut bits)?;
            let length = value(match_state, &mut bits)?;
            let n_literals = value(literals_state, &mut bits)?;
            left = left.checked_sub(n_literals)?;
            each(Sequence {
                literals: n_literals,
                length,
                offset: next_offset(offset, n_literals, offsets)?,
            })?;
        }
        bits.is_empty().then_some(())
    }
}

thread_local! {
    /// Reused tables: they are large, and most blocks use few cells.
    static BUFFERS: std::cell::Cell<Option<Box<[FseTable; 3]>>> = const { std::cell::Cell::new(None) };
}

fn value(cell: Cell, bits: &mut Bits<'_>) -> Option<u32> {
    cell.value.checked_add(bits.take(cell.more.into())?)
}

/// The offset of a value, which becomes the latest one. The inner `None` is an unknown offset.
fn next_offset(value: u32, literals: u32, last: &mut [Option<u32>; 3]) -> Option<Option<u32>> {
    let [first, second, third] = *last;
    // Without literals, the latest offset would extend the previous match, so its value means the next one.
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
    let (bytes, tail) = rest.split_at_checked(encoded as usize)?;
    *rest = tail;
    Some(Literals::Compressed(Packed {
        len: len as u32,
        bytes,
        four: format != 0,
        repeat: first & 1 == 1,
    }))
}

/// Takes a little-endian number of up to three bytes from the front of `rest`.
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
