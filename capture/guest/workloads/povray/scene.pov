// SPDX-License-Identifier: GPL-2.0-or-later
// Balls of glass and metal on a chequered floor, a hollow box, a torus, a landscape.
#version 3.7;
global_settings { assumed_gamma 1.0 max_trace_level 8 }
camera { location <0, 6, -14> look_at <0, 1.5, 0> angle 50 }
light_source { <20, 30, -20> rgb 1 area_light <4, 0, 0>, <0, 0, 4>, 4, 4 adaptive 1 }
light_source { <-15, 12, -10> rgb <0.4, 0.4, 0.6> }
background { rgb <0.3, 0.5, 0.8> }
plane { y, 0 pigment { checker rgb 0.9, rgb 0.2 scale 1.5 } finish { reflection 0.15 } }
#declare R = seed(11);
#for (I, 1, 120)
    sphere {
        <rand(R) * 16 - 8, 0.3 + rand(R) * 3, rand(R) * 14 - 5>, 0.25 + rand(R) * 0.3
        #if (mod(I, 3) = 0)
            pigment { rgbt <0.9, 0.95, 1, 0.9> } interior { ior 1.4 } finish { reflection 0.1 specular 0.6 }
        #else
            pigment { bozo color_map { [0 rgb <rand(R), rand(R), 0.3>] [1 rgb <1, rand(R), rand(R)>] } scale 0.2 }
            normal { bumps 0.3 scale 0.1 } finish { phong 0.8 reflection 0.25 }
        #end
    }
#end
difference {
    box { <-2, 0, -1>, <2, 3, 3> }
    union { sphere { <0, 1.5, 1>, 1.8 } cylinder { <-3, 1.5, 1>, <3, 1.5, 1>, 0.8 } }
    pigment { marble turbulence 0.7 color_map { [0 rgb 0.9] [1 rgb <0.5, 0.3, 0.2>] } } finish { specular 0.4 }
}
torus { 3.4, 0.3 translate <0, 1.5, 1> pigment { rgb <1, 0.8, 0.2> } finish { metallic reflection 0.4 } }
