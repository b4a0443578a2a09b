"""`neuronxcc.nki.kernels`: kernels with the documented interfaces of the vendor's, written for this project.

They give the same values; how they divide their work, and so how long they take, is their own."""
