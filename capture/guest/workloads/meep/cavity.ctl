; SPDX-License-Identifier: GPL-2.0-or-later
; A pulse in a box with a dielectric ball: Maxwell's equations in three dimensions.
(set! geometry-lattice (make lattice (size 10 10 10)))
(set! geometry (list (make sphere (center 1 0 0) (radius 2) (material (make dielectric (epsilon 12))))))
(set! sources (list (make source (src (make gaussian-src (frequency 0.3) (fwidth 0.2))) (component Ez) (center -3 0 0))))
(set! pml-layers (list (make pml (thickness 1))))
(set! resolution 10)
(set! eps-averaging? false)
(run-until 100)
