//! Finite state entropy (FSE), the tables and bit streams of zstd's sequences: RFC 8878, section 4.1.
//!
//! All sizes are bounded and checked: invalid input, or a read past an end, is `None`. [`execute`](super::execute) relies on the
//! invariant of [`FseTable`].

/// Most states of a table, for an accuracy of 9 bits.
pub(super) const MAX_STATES: usize = 512;
/// A power of two that is more than the largest symbol of any table, 52.
pub(super) const MAX_SYMBOLS: usize = 64;

/// A state: its value and its successors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C, align(8))]
pub(super) struct Cell {
    /// Base of the value, to which bits are added.
    pub(super) value: u32,
    /// Base of the next state, to which bits are added.
    pub(super) next: u16,
    /// Number of bits that are added to the value.
    pub(super) more: u8,
    /// Number of bits that are added to the next state.
    pub(super) bits: u8,
}

/// The values of symbols, as cells without a next state. Undefined symbols are 0.
pub(super) type SymbolCodes = [Cell; MAX_SYMBOLS];

/// Codes of consecutive ranges of numbers from `first` on: the first `short` codes have no additional bits, the others `more`.
pub(super) const fn codes(first: u32, short: usize, more: &[u8]) -> SymbolCodes {
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

/// A decoding table of `1 << log` states, at most [`MAX_STATES`]. Invariant: from every state, with any added bits, the next state
/// is within the table; `execute` reads cells without bounds checks because of this.
#[derive(Clone)]
pub(super) struct FseTable {
    cells: [Cell; MAX_STATES],
    log: u32,
}

impl FseTable {
    /// The table of a code with only this symbol, which takes no bits.
    pub(super) const fn of_one(code: Cell) -> FseTable {
        FseTable {
            cells: [code; MAX_STATES],
            log: 0,
        }
    }

    /// Sets this to the table of a code with only this symbol.
    pub(super) const fn set_one(&mut self, code: Cell) {
        self.cells[0] = code;
        self.log = 0;
    }

    /// Copies another table.
    pub(super) fn copy_from(&mut self, other: &FseTable) {
        let n = 1 << other.log;
        self.cells[..n].copy_from_slice(&other.cells[..n]);
        self.log = other.log;
    }

    /// The table for these probabilities of symbols, whose sum is `1 << log`; -1 means "less than one". `log` is 5 to 9.
    pub(super) const fn new(probabilities: &[i16], log: u32, codes: &SymbolCodes) -> FseTable {
        let mut table = FseTable::of_one(codes[0]);
        table.set(probabilities, log, codes);
        table
    }

    /// Sets this to the table of [`new`](Self::new).
    #[inline(always)]
    pub(super) const fn set(&mut self, probabilities: &[i16], log: u32, codes: &SymbolCodes) {
        self.log = log;
        let size = 1usize << log;
        // The next state number of each symbol.
        let mut next = [0u16; MAX_SYMBOLS];
        let mut symbols = [0u8; MAX_STATES];
        // Each symbol repeated for its number of states, in order. Eight are written at once.
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
        // Symbols are spread over the states below those of "less than one" symbols.
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
            // `n` is at least 1 for a symbol with a state.
            let bits = n.leading_zeros() - (15 - log);
            let cell = &mut self.cells[i % MAX_STATES];
            *cell = codes[symbol];
            cell.next = (n << bits) - size as u16;
            cell.bits = bits as u8;
            i += 1;
        }
    }

    /// Number of bits of the initial state.
    #[inline(always)]
    pub(super) fn log(&self) -> u32 {
        self.log
    }

    /// The cells; those from `1 << log` on are unused.
    #[inline(always)]
    pub(super) fn cells(&self) -> &[Cell; MAX_STATES] {
        &self.cells
    }

    /// Reads the initial state of a stream.
    pub(super) fn start(&self, bits: &mut Bits<'_>) -> Option<Cell> {
        self.state(bits.take(self.log)?)
    }

    /// Reads the state after `cell`.
    pub(super) fn next(&self, cell: Cell, bits: &mut Bits<'_>) -> Option<Cell> {
        self.state(u32::from(cell.next) + bits.take(cell.bits.into())?)
    }

    fn state(&self, index: u32) -> Option<Cell> {
        self.cells.get(index as usize).copied()
    }
}

/// Probabilities of symbols, from which a table is built when it is needed.
#[derive(Debug, Clone, Copy)]
pub(super) struct FseDescription {
    probabilities: [i16; MAX_SYMBOLS],
    symbols: usize,
    log: u32,
}

impl FseDescription {
    /// Reads a table description from the front of `src`, for symbols up to `max_symbol` and at most `max_log` bits.
    pub(super) fn read(src: &mut &[u8], max_symbol: u8, max_log: u32) -> Option<FseDescription> {
        let max_symbol = usize::from(max_symbol);
        let bytes = *src;
        let mut at = 0;
        // Up to 16 bits from bit `at` on; bits past the end are zeros.
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
            // A value from 0 to `left + 1`; smaller values take one bit less.
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
        Some(FseDescription {
            probabilities,
            symbols: symbol,
            log,
        })
    }

    /// Sets `table` to the table of these probabilities.
    #[inline(always)]
    pub(super) fn set(&self, table: &mut FseTable, codes: &SymbolCodes) {
        let probabilities = self.probabilities.get(..self.symbols).unwrap_or(&[]);
        table.set(probabilities, self.log, codes);
    }
}

/// A bit stream that is read backwards from its end, which is marked by the highest set bit of the last byte.
#[derive(Debug, Clone)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Number of remaining bits.
    left: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Option<Bits<'a>> {
        let last = bytes.last()?.checked_ilog2()?;
        let left = (bytes.len() - 1) * 8 + last as usize;
        Some(Bits { bytes, left })
    }

    /// Takes the next `n` bits, at most 31, as a number.
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
