//! Small dense matrices: what a network of some tens of states needs, and no more.

/// A square or rectangular matrix, row by row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    values: Vec<f64>,
}

impl std::ops::Index<(usize, usize)> for Matrix {
    type Output = f64;

    fn index(&self, (row, column): (usize, usize)) -> &f64 {
        &self.values[row * self.columns + column]
    }
}

impl std::ops::IndexMut<(usize, usize)> for Matrix {
    fn index_mut(&mut self, (row, column): (usize, usize)) -> &mut f64 {
        &mut self.values[row * self.columns + column]
    }
}

impl Matrix {
    pub(crate) fn zero(rows: usize, columns: usize) -> Matrix {
        Matrix { rows, columns, values: vec![0.0; rows * columns] }
    }

    pub(crate) fn identity(size: usize) -> Matrix {
        let mut one = Matrix::zero(size, size);
        for n in 0..size {
            one[(n, n)] = 1.0;
        }
        one
    }

    pub(crate) fn row(&self, row: usize) -> &[f64] {
        &self.values[row * self.columns..(row + 1) * self.columns]
    }

    pub(crate) fn scaled(mut self, factor: f64) -> Matrix {
        self.values.iter_mut().for_each(|v| *v *= factor);
        self
    }

    pub(crate) fn add(&mut self, other: &Matrix) {
        for (mine, theirs) in self.values.iter_mut().zip(&other.values) {
            *mine += theirs;
        }
    }

    pub(crate) fn times(&self, other: &Matrix) -> Matrix {
        let mut product = Matrix::zero(self.rows, other.columns);
        for row in 0..self.rows {
            for (inner, &left) in self.row(row).iter().enumerate() {
                if left != 0.0 {
                    for column in 0..other.columns {
                        product[(row, column)] += left * other[(inner, column)];
                    }
                }
            }
        }
        product
    }

    pub(crate) fn transposed(&self) -> Matrix {
        let mut turned = Matrix::zero(self.columns, self.rows);
        for row in 0..self.rows {
            for column in 0..self.columns {
                turned[(column, row)] = self[(row, column)];
            }
        }
        turned
    }

    /// `into = self^T * vector`: by rows of this matrix, so that the additions are independent.
    pub(crate) fn apply_transposed(&self, vector: &[f64], into: &mut [f64]) {
        into.fill(0.0);
        for (row, &value) in vector.iter().enumerate() {
            for (sum, factor) in into.iter_mut().zip(self.row(row)) {
                *sum += factor * value;
            }
        }
    }

    fn scale_row(&mut self, row: usize, factor: f64) {
        let columns = self.columns;
        self.values[row * columns..(row + 1) * columns].iter_mut().for_each(|v| *v *= factor);
    }

    fn swap_rows(&mut self, a: usize, b: usize) {
        for column in 0..self.columns {
            self.values.swap(a * self.columns + column, b * self.columns + column);
        }
    }

    /// Takes `factor` times the row `other` away from `row`.
    fn take_row(&mut self, row: usize, other: usize, factor: f64) {
        for column in 0..self.columns {
            let value = self[(other, column)];
            self[(row, column)] -= factor * value;
        }
    }

    /// Largest sum of magnitudes in a row.
    fn norm(&self) -> f64 {
        (0..self.rows).map(|r| self.row(r).iter().map(|v| v.abs()).sum()).fold(0.0, f64::max)
    }

    /// `e^self`: a Taylor series of the matrix halved until it is small, then squared back.
    pub(crate) fn exponential(&self) -> Matrix {
        let norm = self.norm();
        let halvings = if norm > 0.25 { (norm / 0.25).log2().ceil() as i32 } else { 0 };
        let small = self.clone().scaled(0.5f64.powi(halvings));
        let mut sum = Matrix::identity(self.rows);
        let mut term = Matrix::identity(self.rows);
        // 0.25^14 / 14! is below the rounding of a double.
        for n in 1..=14 {
            term = term.times(&small).scaled(1.0 / f64::from(n));
            sum.add(&term);
        }
        for _ in 0..halvings {
            sum = sum.times(&sum);
        }
        sum
    }
}

/// `matrix^-1 side` by elimination with row exchanges; `None` if the matrix is singular.
pub(crate) fn solved(mut matrix: Matrix, mut side: Matrix) -> Option<Matrix> {
    let size = matrix.rows;
    // Rows may be in units of their own: conductances and inverse inductances.
    for row in 0..size {
        let largest = matrix.row(row).iter().fold(0.0f64, |m, v| m.max(v.abs()));
        if !(largest.is_finite() && largest > 0.0) {
            return None;
        }
        matrix.scale_row(row, 1.0 / largest);
        side.scale_row(row, 1.0 / largest);
    }
    for column in 0..size {
        let magnitude = |row: &usize| matrix[(*row, column)].abs();
        let pivot = (column..size).max_by(|a, b| magnitude(a).total_cmp(&magnitude(b)))?;
        if matrix[(pivot, column)].abs() < 1e-12 {
            return None;
        }
        matrix.swap_rows(column, pivot);
        side.swap_rows(column, pivot);
        for row in (0..size).filter(|&row| row != column) {
            let factor = matrix[(row, column)] / matrix[(column, column)];
            if factor != 0.0 {
                matrix.take_row(row, column, factor);
                side.take_row(row, column, factor);
            }
        }
    }
    for row in 0..size {
        side.scale_row(row, 1.0 / matrix[(row, row)]);
    }
    Some(side)
}

/// A symmetric positive definite band matrix, factored once (`L L^T`) and used many times.
#[derive(Clone, Debug)]
pub(crate) struct BandCholesky {
    size: usize,
    band: usize,
    /// `lower[row * (band + 1) + (column + band - row)]`.
    lower: Vec<f64>,
}

impl BandCholesky {
    /// Factors `matrix`, whose entries beyond `band` of the diagonal are zero; `None` if it is not
    /// positive definite.
    pub(crate) fn new(matrix: &Matrix, band: usize) -> Option<BandCholesky> {
        let size = matrix.rows;
        let width = band + 1;
        let mut lower = vec![0.0; size * width];
        for row in 0..size {
            for column in row.saturating_sub(band)..=row {
                let mut sum = matrix[(row, column)];
                for inner in row.saturating_sub(band).max(column.saturating_sub(band))..column {
                    sum -= lower[row * width + inner + band - row]
                        * lower[column * width + inner + band - column];
                }
                if column == row {
                    if sum.is_nan() || sum <= 0.0 {
                        return None;
                    }
                    lower[row * width + band] = sum.sqrt();
                } else {
                    lower[row * width + column + band - row] = sum / lower[column * width + band];
                }
            }
        }
        Some(BandCholesky { size, band, lower })
    }

    /// Replaces the right-hand side by the solution.
    pub(crate) fn solve(&self, side: &mut [f64]) {
        let width = self.band + 1;
        for row in 0..self.size {
            let first = row.saturating_sub(self.band);
            let factors = &self.lower[row * width + self.band - (row - first)..];
            let known = side[first..row].iter().zip(factors);
            let sum: f64 = known.map(|(value, factor)| value * factor).sum();
            side[row] = (side[row] - sum) / self.lower[row * width + self.band];
        }
        for row in (0..self.size).rev() {
            let value = side[row] / self.lower[row * width + self.band];
            side[row] = value;
            let first = row.saturating_sub(self.band);
            let factors = &self.lower[row * width + self.band - (row - first)..];
            for (above, factor) in side[first..row].iter_mut().zip(factors) {
                *above -= value * factor;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_of_a_rotation_turns() {
        let mut turn = Matrix::zero(2, 2);
        turn[(0, 1)] = -3.0;
        turn[(1, 0)] = 3.0;
        let turned = turn.exponential();
        assert!((turned[(0, 0)] - 3f64.cos()).abs() < 1e-12);
        assert!((turned[(1, 0)] - 3f64.sin()).abs() < 1e-12);
    }

    #[test]
    fn a_system_that_needs_row_exchanges_is_solved() {
        let mut matrix = Matrix::zero(3, 3);
        for (at, value) in [((0, 1), 2.0), ((1, 0), 4e9), ((1, 2), -1e9), ((2, 2), 1e-9)] {
            matrix[at] = value;
        }
        let mut side = Matrix::zero(3, 1);
        for (row, value) in [6.0, 2e9, 2e-9].into_iter().enumerate() {
            side[(row, 0)] = value;
        }
        let found = solved(matrix.clone(), side.clone()).unwrap();
        for (row, expected) in [1.0, 3.0, 2.0].into_iter().enumerate() {
            assert!((found[(row, 0)] - expected).abs() < 1e-12);
        }
        matrix[(2, 2)] = 0.0;
        assert!(solved(matrix, side).is_none());
    }

    #[test]
    fn a_band_system_is_solved() {
        let mut matrix = Matrix::zero(5, 5);
        for n in 0..5 {
            matrix[(n, n)] = 4.0;
            for m in n + 1..(n + 3).min(5) {
                matrix[(n, m)] = -1.0;
                matrix[(m, n)] = -1.0;
            }
        }
        let expected = [1.0, -2.0, 3.0, 0.5, 7.0];
        let mut side = vec![0.0; 5];
        matrix.apply_transposed(&expected, &mut side);
        BandCholesky::new(&matrix, 2).unwrap().solve(&mut side);
        for (ours, theirs) in side.iter().zip(expected) {
            assert!((ours - theirs).abs() < 1e-12);
        }
        matrix[(2, 2)] = -1.0;
        assert!(BandCholesky::new(&matrix, 2).is_none());
    }
}
