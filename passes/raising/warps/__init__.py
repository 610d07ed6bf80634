"""What a warp's lanes find out together, in the forms that exchanges are known by."""
