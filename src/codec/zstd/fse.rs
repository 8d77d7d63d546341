//! The entropy tables and bit streams of zstd's sequences: finite state entropy, RFC 8878, section 4.1.
//!
//! Used by [`zstd_sequences`](super::sequences), and of it the tables by [`zstd_execute`](super::execute), which relies on
//! their form, and by [`zstd_huffman`](super::huffman). Everything is bounded and checked: what is not valid, or reads past an
//! end, is `None`.

/// The most states of a table, for an accuracy of 9 bits.
pub(super) const MAX_STATES: usize = 512;
/// A power of two that is more than the largest symbol of any table, 52.
pub(super) const MAX_SYMBOLS: usize = 64;

/// What a state stands for, and how to get to the next.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub(super) struct Cell {
    /// What the state stands for, before bits are added.
    pub(super) value: u32,
    /// The next state, before bits are added.
    pub(super) next: u16,
    /// How many bits are added to the value.
    pub(super) more: u8,
    /// How many bits are added to the next state.
    pub(super) bits: u8,
}

/// What symbols stand for: cells that lead nowhere yet. Those of symbols that there are not are 0.
pub(super) type Codes = [Cell; MAX_SYMBOLS];

/// Codes of numbers, each of which starts where the one before ends: the first `short` of them have no bits that are added, the others
/// have so many.
pub(super) const fn codes(first: u32, short: usize, more: &[u8]) -> Codes {
    let mut codes = [Cell {
        value: 0,
        next: 0,
        more: 0,
        bits: 0,
    }; MAX_SYMBOLS];
    let (mut i, mut value) = (0, first);
    while i < short + more.len() {
        codes[i].value = value;
        codes[i].more = if i < short { 0 } else { more[i - short] };
        value = value.wrapping_add(1 << codes[i].more);
        i += 1;
    }
    codes
}

/// A decoding table of `1 << log` states, at most [`MAX_STATES`]. From each of them, whatever bits are added, the next is one of
/// them, too; `zstd_execute` reads cells without a check because of that.
#[derive(Clone)]
pub(super) struct Table {
    cells: [Cell; MAX_STATES],
    log: u32,
}

impl Table {
    /// The table of a code in which every symbol is this one, in no bits.
    pub(super) const fn of_one(code: Cell) -> Table {
        Table {
            cells: [code; MAX_STATES],
            log: 0,
        }
    }

    /// Makes this the table of a code in which every symbol is this one.
    pub(super) const fn set_one(&mut self, code: Cell) {
        self.cells[0] = code;
        self.log = 0;
    }

    /// Makes this the same as another.
    pub(super) fn copy_from(&mut self, other: &Table) {
        let n = 1 << other.log;
        self.cells[..n].copy_from_slice(&other.cells[..n]);
        self.log = other.log;
    }

    /// The table of symbols with these probabilities, which add up to `1 << log`: -1 is less than one. `log` is 5 to 9.
    pub(super) const fn new(probabilities: &[i16], log: u32, codes: &Codes) -> Table {
        let mut table = Table::of_one(codes[0]);
        table.set(probabilities, log, codes);
        table
    }

    /// Makes this the table that [`new`](Self::new) makes.
    #[inline(always)]
    pub(super) const fn set(&mut self, probabilities: &[i16], log: u32, codes: &Codes) {
        self.log = log;
        let size = 1usize << log;
        // States of a symbol, to be numbered from there on.
        let mut next = [0u16; MAX_SYMBOLS];
        let mut symbols = [0u8; MAX_STATES];
        // Symbols as often as they have states, in order; eight are written at once.
        let mut in_order = [0u8; MAX_STATES + 8];
        let mut high = size;
        let mut n = 0;
        let mut symbol = 0;
        while symbol < probabilities.len() {
            let states = probabilities[symbol];
            if states < 0 {
                high -= 1;
                symbols[high] = symbol as u8;
                next[symbol] = 1;
            } else {
                next[symbol] = states as u16;
                let mut i = 0;
                loop {
                    if let Some(to) = in_order.split_at_mut(n + i).1.first_chunk_mut::<8>() {
                        *to = [symbol as u8; 8];
                    }
                    i += 8;
                    if i >= states as usize {
                        break;
                    }
                }
                n += states as usize;
            }
            symbol += 1;
        }
        // They are dealt out to the states below those of the rarest.
        let step = (size >> 1) + (size >> 3) + 3;
        let mut at = 0;
        let mut i = 0;
        if high == size {
            while i < size {
                symbols[at % MAX_STATES] = in_order[i % MAX_STATES];
                at = (at + step) & (size - 1);
                i += 1;
            }
        } else {
            let mut n = 0;
            while i < size {
                if at < high {
                    symbols[at % MAX_STATES] = in_order[n % MAX_STATES];
                    n += 1;
                }
                at = (at + step) & (size - 1);
                i += 1;
            }
        }
        let mut i = 0;
        while i < size {
            let symbol = symbols[i % MAX_STATES] as usize % MAX_SYMBOLS;
            let n = next[symbol];
            next[symbol] += 1;
            // `n` is 1 or more for a symbol that has a state.
            let bits = n.leading_zeros() - (15 - log);
            let cell = &mut self.cells[i % MAX_STATES];
            *cell = codes[symbol];
            cell.next = (n << bits) - size as u16;
            cell.bits = bits as u8;
            i += 1;
        }
    }

    /// The number of bits that the first state is read from.
    #[inline(always)]
    pub(super) fn log(&self) -> u32 {
        self.log
    }

    /// The cells, of which those from `1 << log` on mean nothing.
    #[inline(always)]
    pub(super) fn cells(&self) -> &[Cell; MAX_STATES] {
        &self.cells
    }

    /// The state that a stream starts with.
    pub(super) fn start(&self, bits: &mut Bits<'_>) -> Option<Cell> {
        self.state(bits.take(self.log)?)
    }

    /// The state after `cell`.
    pub(super) fn next(&self, cell: Cell, bits: &mut Bits<'_>) -> Option<Cell> {
        self.state(u32::from(cell.next) + bits.take(cell.bits.into())?)
    }

    fn state(&self, index: u32) -> Option<Cell> {
        self.cells.get(index as usize).copied()
    }
}

/// The probabilities of symbols, from which a table is made when it is needed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Description {
    probabilities: [i16; MAX_SYMBOLS],
    symbols: usize,
    log: u32,
}

impl Description {
    /// Reads a table's description off the front of `src`: for symbols up to `max_symbol`, of at most `max_log` bits.
    pub(super) fn read(src: &mut &[u8], max_symbol: u8, max_log: u32) -> Option<Description> {
        let max_symbol = usize::from(max_symbol);
        let bytes = *src;
        let mut at = 0;
        // Up to 16 bits from the next on; those past the end are zeros.
        let peek = |at: usize, n: u32| {
            let from = bytes.get(at / 8..).unwrap_or_default();
            let word = match from.first_chunk::<4>() {
                Some(word) => u32::from_le_bytes(*word),
                None => from
                    .iter()
                    .rev()
                    .fold(0, |word, byte| word << 8 | u32::from(*byte)),
            };
            word >> (at % 8) & ((1 << n) - 1)
        };
        let log = peek(at, 4) + 5;
        at += 4;
        if log > max_log || max_log > 9 || max_symbol >= MAX_SYMBOLS {
            return None;
        }
        let mut probabilities = [0i16; MAX_SYMBOLS];
        let mut left = 1i32 << log;
        let mut symbol = 0;
        while left > 0 {
            if symbol > max_symbol || at > 8 * bytes.len() {
                return None;
            }
            // One of 0 to `left + 1`: the smaller ones take a bit less.
            let largest = left as u32 + 1;
            let bits = largest.ilog2() + 1;
            let short = (1 << bits) - 1 - largest;
            let x = peek(at, bits);
            let low = x & ((1 << (bits - 1)) - 1);
            let value = if low < short {
                at += bits as usize - 1;
                low
            } else {
                at += bits as usize;
                if x == low { x } else { x - short }
            };
            let probability = value as i16 - 1;
            left -= i32::from(probability.abs());
            *probabilities.get_mut(symbol)? = probability;
            symbol += 1;
            if probability == 0 {
                loop {
                    let more = peek(at, 2);
                    at += 2;
                    symbol += more as usize;
                    if more < 3 {
                        break;
                    }
                    if symbol > max_symbol {
                        return None;
                    }
                }
            }
        }
        *src = bytes.get(at.div_ceil(8)..)?;
        if left < 0 || symbol > max_symbol + 1 {
            return None;
        }
        Some(Description {
            probabilities,
            symbols: symbol,
            log,
        })
    }

    /// Makes `table` the one of these probabilities.
    #[inline(always)]
    pub(super) fn set(&self, table: &mut Table, codes: &Codes) {
        let probabilities = self.probabilities.get(..self.symbols).unwrap_or(&[]);
        table.set(probabilities, self.log, codes);
    }
}

/// A bit stream that is read from its end: below the highest bit that is set in the last byte.
#[derive(Debug, Clone)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Bits that are left.
    left: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Option<Bits<'a>> {
        let last = bytes.last()?.checked_ilog2()?;
        let left = (bytes.len() - 1) * 8 + last as usize;
        Some(Bits { bytes, left })
    }

    /// The next `n` bits, at most 31, as a number.
    pub(super) fn take(&mut self, n: u32) -> Option<u32> {
        self.left = self.left.checked_sub(n as usize)?;
        let from = self.bytes.get(self.left / 8..)?;
        let word = match from.first_chunk::<8>() {
            Some(word) => u64::from_le_bytes(*word),
            None => from
                .iter()
                .rev()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        Some((word >> (self.left % 8)) as u32 & ((1 << n) - 1))
    }

    /// Whether all bits have been taken.
    pub(super) fn is_empty(&self) -> bool {
        self.left == 0
    }
}
