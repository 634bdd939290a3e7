//! Kernels as machine code: what is timed is what is written here, and no compiler reorders it.

use std::ptr::NonNull;

/// A general register by its number.
pub type Gpr = u8;
/// The registers that kernels use by name.
pub mod reg {
    use super::Gpr;
    /// Free for any use.
    pub const RAX: Gpr = 0;
    /// Free for any use.
    pub const RCX: Gpr = 1;
    /// Address of the second place.
    pub const RDX: Gpr = 2;
    /// Free for any use.
    pub const RBX: Gpr = 3;
    /// Free for any use.
    pub const RBP: Gpr = 5;
    /// Address of the first place.
    pub const RSI: Gpr = 6;
    /// Number of iterations left.
    pub const RDI: Gpr = 7;
    /// Free, as are those above.
    pub const R8: Gpr = 8;
}
/// Saved by who is called, in the System V convention.
const SAVED: [Gpr; 6] = [3, 5, 12, 13, 14, 15];

/// A loop that is being assembled: `fn(iterations, first place, second place) -> rax`.
#[derive(Clone, Debug)]
pub struct Code {
    bytes: Vec<u8>,
    top: usize,
}

impl Default for Code {
    fn default() -> Code {
        Code::new()
    }
}

impl Code {
    /// Begins a function with its prologue.
    #[must_use]
    pub fn new() -> Code {
        let mut code = Code { bytes: Vec::new(), top: 0 };
        for r in SAVED {
            if r >= 8 {
                code.bytes.push(0x41);
            }
            code.bytes.push(0x50 | (r & 7));
        }
        code
    }

    /// Here the loop begins; what came before is executed once.
    pub fn top(&mut self) -> &mut Code {
        // Aligned, so that a kernel does not depend on where the one before it ended.
        while !self.bytes.len().is_multiple_of(64) {
            self.bytes.push(0x90);
        }
        self.top = self.bytes.len();
        self
    }

    /// The machine code with the loop's end and the epilogue.
    #[must_use]
    pub fn finish(mut self) -> Vec<u8> {
        // dec rdi; jnz top
        self.bytes.extend([0x48, 0xff, 0xcf, 0x0f, 0x85]);
        let here = self.bytes.len() + 4;
        let back = (self.top as i64 - here as i64) as i32;
        self.bytes.extend(back.to_le_bytes());
        for r in SAVED.into_iter().rev() {
            if r >= 8 {
                self.bytes.push(0x41);
            }
            self.bytes.push(0x58 | (r & 7));
        }
        self.bytes.push(0xc3);
        self.bytes
    }

    /// Bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) -> &mut Code {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Emits one-byte no-operations.
    pub fn nops(&mut self, count: usize) -> &mut Code {
        self.bytes.extend(std::iter::repeat_n(0x90, count));
        self
    }

    /// `opcode reg, rm` on 64-bit registers.
    fn two(&mut self, opcode: &[u8], reg: Gpr, rm: Gpr) -> &mut Code {
        self.bytes.push(0x48 | (reg >> 3) << 2 | rm >> 3);
        self.bytes.extend_from_slice(opcode);
        self.bytes.push(0xc0 | (reg & 7) << 3 | rm & 7);
        self
    }

    /// Emits `to += from`.
    pub fn add(&mut self, to: Gpr, from: Gpr) -> &mut Code {
        self.two(&[0x01], from, to)
    }

    /// Emits `to ^= from`.
    pub fn xor(&mut self, to: Gpr, from: Gpr) -> &mut Code {
        self.two(&[0x31], from, to)
    }

    /// Emits `to = from`.
    pub fn copy(&mut self, to: Gpr, from: Gpr) -> &mut Code {
        self.two(&[0x89], from, to)
    }

    /// Emits `to *= from`.
    pub fn imul(&mut self, to: Gpr, from: Gpr) -> &mut Code {
        self.two(&[0x0f, 0xaf], to, from)
    }

    /// `rax, rdx = rdx:rax / by`
    pub fn div(&mut self, by: Gpr) -> &mut Code {
        self.two(&[0xf7], 6, by)
    }

    /// `to <<= by`, or to the right if `by` is negative.
    pub fn shift(&mut self, to: Gpr, by: i8) -> &mut Code {
        let which = if by < 0 { 5 } else { 4 };
        self.two(&[0xc1], which, to);
        self.bytes.push(by.unsigned_abs());
        self
    }

    /// Emits `to = value`.
    pub fn set(&mut self, to: Gpr, value: u64) -> &mut Code {
        self.bytes.extend([0x48 | to >> 3, 0xb8 | to & 7]);
        self.bytes.extend(value.to_le_bytes());
        self
    }

    /// The operand `[base + offset]`.
    fn place(&mut self, reg: Gpr, base: Gpr, offset: i32) {
        self.bytes.push(0x80 | (reg & 7) << 3 | base & 7);
        if base & 7 == 4 {
            self.bytes.push(0x24);
        }
        self.bytes.extend(offset.to_le_bytes());
    }

    /// `to = [base + offset]`
    pub fn load(&mut self, to: Gpr, base: Gpr, offset: i32) -> &mut Code {
        self.bytes.extend([0x48 | (to >> 3) << 2 | base >> 3, 0x8b]);
        self.place(to, base, offset);
        self
    }

    /// `[base + offset] = from`
    pub fn store(&mut self, from: Gpr, base: Gpr, offset: i32) -> &mut Code {
        self.bytes.extend([0x48 | (from >> 3) << 2 | base >> 3, 0x89]);
        self.place(from, base, offset);
        self
    }

    /// `lock [base + offset] += from`
    pub fn lock_add(&mut self, from: Gpr, base: Gpr, offset: i32) -> &mut Code {
        self.bytes.extend([0xf0, 0x48 | (from >> 3) << 2 | base >> 3, 0x01]);
        self.place(from, base, offset);
        self
    }

    /// An SSE2 operation between vector registers.
    pub fn sse(&mut self, op: Sse, to: u8, from: u8) -> &mut Code {
        let (prefix, opcode) = op.code();
        self.bytes.extend(prefix);
        if to >= 8 || from >= 8 {
            self.bytes.push(0x40 | (to >> 3) << 2 | from >> 3);
        }
        self.bytes.extend([0x0f, opcode, 0xc0 | (to & 7) << 3 | from & 7]);
        self
    }

    /// Vector register `to` = general register `from`.
    pub fn to_vector(&mut self, to: u8, from: Gpr) -> &mut Code {
        self.bytes.push(0x66);
        self.two(&[0x0f, 0x6e], to, from)
    }

    /// Skips `bytes` that follow if the lowest bit of a register is set.
    pub fn skip_if_odd(&mut self, which: Gpr, bytes: u8) -> &mut Code {
        // test r, 1; jnz +bytes
        self.bytes.extend([0x48 | which >> 3, 0xf7, 0xc0 | which & 7, 1, 0, 0, 0, 0x75, bytes]);
        self
    }

    /// Calls nested `depth` deep, each returning at once after its own.
    pub fn nested_calls(&mut self, depth: usize) -> &mut Code {
        // call f1; jmp out; f1: call f2; ret; f2: ...; ret; out:
        let inner = depth.saturating_sub(1);
        let over = (6 * inner + 1) as i32;
        self.bytes.extend([0xe8, 5, 0, 0, 0, 0xe9]);
        self.bytes.extend(over.to_le_bytes());
        for _ in 0..inner {
            self.bytes.extend([0xe8, 1, 0, 0, 0, 0xc3]);
        }
        self.bytes.push(0xc3);
        self
    }

    /// Returns the number of bytes emitted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True before anything was assembled; never, as there is a prologue.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }
}

/// Vector operations, on the low double or on all integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sse {
    /// The instruction `addsd`.
    Add,
    /// The instruction `mulsd`.
    Multiply,
    /// The instruction `divsd`.
    Divide,
    /// The instruction `paddd`.
    Integer,
}

impl Sse {
    const fn code(self) -> (&'static [u8], u8) {
        match self {
            Sse::Add => (&[0xf2], 0x58),
            Sse::Multiply => (&[0xf2], 0x59),
            Sse::Divide => (&[0xf2], 0x5e),
            Sse::Integer => (&[0x66], 0xfe),
        }
    }
}

/// Machine code that can be run.
#[derive(Debug)]
pub struct Kernel {
    base: NonNull<u8>,
    length: usize,
}

impl Kernel {
    /// Maps code: written first, then made executable, never both.
    ///
    /// # Errors
    /// What the kernel says, for one that forbids it.
    pub fn map(bytes: &[u8]) -> std::io::Result<Kernel> {
        let length = bytes.len().next_multiple_of(4096);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let (writes, runs) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::PROT_READ | libc::PROT_EXEC);
        // SAFETY: a new mapping wherever the kernel likes.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), length, writes, flags, -1, 0) };
        if base == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(std::io::ErrorKind::InvalidData)?;
        let kernel = Kernel { base, length };
        // SAFETY: the mapping is `length` bytes, at least those of `bytes`, and nobody else's.
        unsafe {
            base.as_ptr().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            if libc::mprotect(base.as_ptr().cast(), length, runs) != 0 {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(kernel)
    }

    /// Runs it.
    ///
    /// # Safety
    /// The bytes must be a whole [`Code`], and whatever it loads and stores through its places must
    /// be the caller's.
    #[inline(never)]
    pub unsafe fn run(&self, iterations: u64, a: *mut u8, b: *mut u8) -> u64 {
        type Function = unsafe extern "sysv64" fn(u64, *mut u8, *mut u8) -> u64;
        // SAFETY: by the caller it is a function of this convention.
        unsafe {
            let function = std::mem::transmute::<*mut u8, Function>(self.base.as_ptr());
            function(iterations, a, b)
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`, and no reference to it is left.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::reg::{R8, RAX, RCX, RDX, RSI};
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, Mnemonic};

    fn run(code: Code, n: u64, a: *mut u8, b: *mut u8) -> u64 {
        let kernel = Kernel::map(&code.finish()).unwrap();
        // SAFETY: the tests give places of their own.
        unsafe { kernel.run(n, a, b) }
    }

    #[test]
    fn assembled_kernel_computes_expected_value() {
        let mut code = Code::new();
        code.set(RAX, 0).set(RCX, 3).top().add(RAX, RCX);
        assert_eq!(run(code, 7, std::ptr::null_mut(), std::ptr::null_mut()), 21);
        let mut cell = 5u64;
        let mut code = Code::new();
        code.set(R8, 2).top().load(RAX, RSI, 0).imul(RAX, R8).store(RAX, RSI, 0);
        code.lock_add(R8, RSI, 0).copy(RAX, R8);
        let place = std::ptr::from_mut(&mut cell).cast();
        assert_eq!(run(code, 3, place, std::ptr::null_mut()), 2);
        assert_eq!(cell, ((5 * 2 + 2) * 2 + 2) * 2 + 2);
        let mut code = Code::new();
        code.set(RAX, 1 << 40).set(RCX, 1 << 4).top().set(RDX, 0).div(RCX);
        assert_eq!(run(code, 5, std::ptr::null_mut(), std::ptr::null_mut()), 1 << 20);
        let mut code = Code::new();
        code.set(RAX, 0).set(RCX, 1).top().nested_calls(40).add(RAX, RCX);
        assert_eq!(run(code, 9, std::ptr::null_mut(), std::ptr::null_mut()), 9);
        let mut code = Code::new();
        code.set(RAX, 1).top().shift(RAX, 5).shift(RAX, -1).skip_if_odd(RCX, 3).raw(&[0x90; 3]);
        assert_eq!(run(code, 2, std::ptr::null_mut(), std::ptr::null_mut()), 1 << 8);
    }

    #[test]
    fn assembled_code_decodes_to_intended_instructions() {
        let mut code = Code::new();
        let start = code.len();
        code.sse(Sse::Add, 9, 1).sse(Sse::Integer, 1, 10).to_vector(12, R8).nested_calls(1);
        let bytes = code.finish();
        let mut decoder = Decoder::new(64, &bytes[start..], DecoderOptions::NONE);
        let found: Vec<Mnemonic> = (0..5).map(|_| decoder.decode().mnemonic()).collect();
        use Mnemonic::{Addsd, Call, Jmp, Movq, Paddd};
        assert_eq!(found, [Addsd, Paddd, Movq, Call, Jmp]);
    }
}
